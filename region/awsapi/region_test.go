package awsapi

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// place is a fresh us-west-2 in memory on virtual time, with cluster nodeless, and its HTTP endpoint.
type place struct {
	region     *region.Region
	clock      *clock.Virtual
	kubernetes *memoryKubernetes
	url        string
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{clock: clock.NewVirtual(time.Date(2026, 11, 5, 9, 0, 0, 0, time.UTC))}
	var err error
	if p.region, err = region.Open(region.Config{Name: "us-west-2", Seed: 1, Clock: p.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.region.Close() })
	cluster := region.ClusterInfo{
		Name: "nodeless", Version: "1.34", Endpoint: "https://127.0.0.1:6443", CA: "Y2E=",
		ServiceCIDR: "172.20.0.0/16",
	}
	if err := p.region.SetCluster(cluster); err != nil {
		t.Fatal(err)
	}
	p.kubernetes = &memoryKubernetes{clock: p.clock}
	mux := http.NewServeMux()
	mux.Handle("/", New(p.region, Options{AdminToken: adminToken, Kubernetes: p.kubernetes}))
	mux.HandleFunc("POST /advance", func(w http.ResponseWriter, req *http.Request) { // for clients in other languages
		seconds, err := strconv.Atoi(req.URL.Query().Get("seconds"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.clock.Advance(time.Duration(seconds) * time.Second)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// adminToken opens /_nodeless/ of a place; testdata/boto3_story.py sends it too.
const adminToken = "token-of-the-tests"

// testRegion returns a fresh us-west-2 on virtual time.
func testRegion(t *testing.T) *region.Region {
	t.Helper()
	return newPlace(t).region
}

// serve returns the URL of a fresh region's endpoint.
func serve(t *testing.T) string {
	t.Helper()
	return newPlace(t).url
}
