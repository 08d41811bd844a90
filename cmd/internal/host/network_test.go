//go:build !noplane

package host

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A cluster that has no answer differs from one that cannot answer just now: the latter does not put pods into user
// mode.
func TestAddressesOfServices(t *testing.T) {
	const list, get = "/api/v1/services", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
	for _, c := range []struct {
		name   string
		status map[string]int // by path; otherwise 200
		vain   bool
		says   string
	}{
		{"they are known", nil, false, ""},
		{"a host without the rights", map[string]int{list: http.StatusForbidden}, false, "nodeless host token shelf"},
		{"an API server that is being started", map[string]int{list: http.StatusInternalServerError}, true, "list Services"},
		{"a cluster from before there were ServiceCIDRs", map[string]int{get: http.StatusNotFound}, false, "--service-cidr"},
		{
			"an API server that is being ended",
			map[string]int{get: http.StatusInternalServerError},
			true,
			"get ServiceCIDR kubernetes",
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if status, ok := c.status[r.URL.Path]; ok {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` +
					strings.ReplaceAll(http.StatusText(status), " ", "") + `"}`))
				return
			}
			_, _ = w.Write([]byte(map[string]string{
				list: `{"kind":"ServiceList","apiVersion":"v1","items":[]}`,
				get:  `{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","spec":{"cidrs":["fd00::/112","10.96.0.0/16"]}}`,
			}[r.URL.Path]))
		}))
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&hostOptions{}).serviceRange(t.Context(), kube, "shelf")
		if c.says == "" && (err != nil || got.String() != "10.96.0.0/16") || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, %v; want %q", c.name, got, err, c.says)
		}
		if errors.Is(err, errAskedInVain) != c.vain {
			t.Errorf("%s: %v", c.name, err)
		}
		server.Close()
	}
}
