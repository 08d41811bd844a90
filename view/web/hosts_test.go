package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodeless/nodeless/view"
)

// shelves returns two hosts of a made-up cluster: one that runs pods of two namespaces, and one that has a name of
// maximum length and is gone.
func shelves(context.Context) (*Hosts, error) {
	vm := func(namespace, pod string) MicroVM {
		return MicroVM{Namespace: namespace, Pod: pod, Profile: "web", Phase: "Running", CPU: 250, Memory: 512 << 20}
	}
	now := time.Now().Unix()
	const day = 24 * 60 * 60
	return &Hosts{At: now, Served: true, Hosts: []Host{
		{
			Name: strings.Repeat("long-", 50) + "cde", Namespace: "nodeless-host-long", Status: "NotReady",
			Message: "nothing has been heard of it since " + hostile, Arch: "arm64", Engine: "TCG", Created: now - 40*day,
			Network: Network{PodCIDR: "10.90.1.0/24"}, Capacity: HostUse{4000, 8 << 30, 20}, MicroVMs: []MicroVM{},
		},
		{
			Name: "shelf", Namespace: "nodeless-host-shelf", Status: "Ready", Arch: "amd64", Engine: "KVM", Zone: "rack-1",
			Kubelet: "v1.36.2", Kernel: "6.1", Created: now - 12*day, Heard: now - 3, Capacity: HostUse{8000, 16 << 30, 50},
			Used:     HostUse{500, 1 << 30, 2},
			Network:  Network{PodCIDR: "10.90.0.0/24", Address: "192.0.2.7", OverlayPort: 8476, OverlayKey: true},
			MicroVMs: []MicroVM{vm("hidden", "secret"), vm("shop", "web-0")},
		},
	}}, nil
}

func TestHostsAreShownAsFarAsTheirReaderMaySee(t *testing.T) {
	ask := func(x hostList) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/hosts", nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.answer(r)
		return fmt.Sprint(v), err
	}
	once, err := shelves(t.Context()) // two calls may fall into two seconds
	if err != nil {
		t.Fatal(err)
	}
	shelves := func(context.Context) (*Hosts, error) { return once, nil }
	all, err := ask(hostList{read: shelves})
	if err != nil || !strings.Contains(all, "web-0") || !strings.Contains(all, "secret") || strings.Contains(all, "\x1b") {
		t.Errorf("%v: %s", err, all)
	}
	some, err := ask(hostList{read: shelves, allow: &view.Allow{Namespaces: []string{"shop"}}})
	if err != nil || !strings.Contains(some, "web-0") || strings.Contains(some, "secret") ||
		!strings.Contains(some, "left:1") {
		t.Errorf("who may see pods of shop alone: %v: %s", err, some)
	}
	none, err := ask(hostList{shelves, &view.Allow{Nodes: true, Pods: true}, []string{"microvms.nodeless.sh"}})
	if err != nil || strings.Contains(none, "web-0") || !strings.Contains(none, "may list microvms.nodeless.sh") ||
		strings.Contains(none, "pods:2]") {
		t.Errorf("who may not list microVMs: %v: %s", err, none)
	}
	again, err := ask(hostList{read: shelves})
	if err != nil || again != all {
		t.Errorf("what one may not see another one may: %v: %s", err, again)
	}
	forbidden := func(context.Context) (*Hosts, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "microvmhosts"}, "", errors.New("no"))
	}
	for _, x := range []struct {
		hostList
		status int
		says   string
	}{
		{hostList{}, http.StatusNotImplemented, "without the cluster's hosts"},
		{
			hostList{shelves, &view.Allow{}, []string{"microvmhosts.nodeless.sh"}},
			http.StatusForbidden,
			"may list microvmhosts.nodeless.sh",
		},
		{hostList{read: forbidden}, http.StatusForbidden, "the page itself may not list"},
		{hostList{read: func(context.Context) (*Hosts, error) { return nil, errors.New("gone") }}, 0, "gone"},
	} {
		_, err := ask(x.hostList)
		if err == nil || statusOf(err) != x.status && x.status != 0 || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want status %d and %q", err, x.status, x.says)
		}
	}
}
