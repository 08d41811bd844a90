package webpage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view/web"
)

// The usage of nodes is requested once for all users who look at about the same time; a cluster without metrics has
// none.
func TestUsageIsWhatTheMetricsAPISays(t *testing.T) {
	asked, answer := 0, http.StatusOK
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/apis/metrics.k8s.io/v1beta1/nodes" {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer)
		switch answer {
		case http.StatusOK:
			_, _ = fmt.Fprint(w, `{"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [
				{"metadata": {"name": "a"}, "usage": {"cpu": "1500500001n", "memory": "2Gi"}}]}`)
		default:
			_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "message": "none"}`,
				answer)
		}
	}))
	t.Cleanup(api.Close)
	c := clock.NewVirtual(time.Unix(1_000_000, 0))
	read, err := usage(&rest.Config{Host: api.URL}, c)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		u, err := read(t.Context())
		if err != nil || !u.Served || u.At != 1_000_000 || !slices.Equal(u.Nodes, []web.NodeUsage{{
			Name: "a", CPU: 1501, Memory: 2 << 30,
		}}) {
			t.Errorf("%+v, %v", u, err)
		}
	}
	if asked != 1 {
		t.Errorf("the API server is asked %d times", asked)
	}
	c.Advance(usageKept)
	answer = http.StatusNotFound
	if u, err := read(t.Context()); err != nil || u.Served || len(u.Nodes) != 0 {
		t.Errorf("without a metrics API: %+v, %v", u, err)
	}
	c.Advance(usageKept)
	answer = http.StatusForbidden
	if u, err := read(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes.metrics.k8s.io") {
		t.Errorf("where it may not ask: %+v, %v", u, err)
	}
}
