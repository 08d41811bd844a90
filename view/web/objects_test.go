package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/access"
	"github.com/nodeless/nodeless/view/objects"
)

// told returns an object of a made-up cluster.
func told(_ context.Context, k objects.Kind, namespace, name string) (objects.Object, error) {
	if strings.HasPrefix(name, "gone") {
		return objects.Object{}, apierrors.NewNotFound(k.GroupResource(), name)
	}
	var refs []objects.Ref
	if k.Kind == "NodeClaim" {
		refs = []objects.Ref{{Kind: "EC2NodeClass", Name: "default"}, {Kind: "Deployment", Namespace: "shop", Name: hostile}}
	}
	return objects.Object{
		Refs:   refs,
		YAML:   "kind: " + k.Kind + "\nmetadata:\n  name: " + name + "\n  labels: {a: " + hostile + "}\n",
		Events: []objects.Event{{Last: 1, Type: "Warning", Reason: "Odd", Message: hostile, Count: 3}},
	}, nil
}

func TestAnObjectsYAMLAndEvents(t *testing.T) {
	s := open(t, 1, 1)
	s.o.Object = told
	ask := func(at *Server, kind, namespace, name string) (objects.Object, error) {
		q := url.Values{"kind": {kind}, "namespace": {namespace}, "name": {name}}
		o, err := objectAPI{at.o.Object, at.allow, at.lacks}.answer(&http.Request{URL: &url.URL{RawQuery: q.Encode()}})
		if err != nil {
			return objects.Object{}, err
		}
		return o.(objects.Object), nil
	}
	o, err := ask(s.Server, "Pod", "shop", "web")
	if err != nil || !strings.HasPrefix(o.YAML, "kind: Pod\nmetadata:\n  name: web\n") || len(o.Events) != 1 ||
		strings.Contains(o.YAML, "\x1b") || strings.Contains(o.Events[0].Message, "\x1b") {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = ask(s.Server, "NodeClaim", "", "a"); err != nil || len(o.Refs) != 2 || o.Refs[0].Name != "default" ||
		strings.Contains(o.Refs[1].Name, "\x1b") {
		t.Errorf("what a NodeClaim is made from: %+v, %v", o.Refs, err)
	}
	for _, x := range []struct {
		kind, namespace, name string
		status                int
	}{
		{"Secret", "shop", "key", http.StatusBadRequest},
		{"ConfigMap", "shop", "key", http.StatusBadRequest},
		{"Deployment", "", "web", http.StatusBadRequest},
		{"Deployment", "shop", "web", 0},
		{"Pod", "", "web", http.StatusBadRequest},
		{"Node", "shop", "a", http.StatusBadRequest},
		{"NodePool", "", "", http.StatusBadRequest},
		{"Node", "", "gone", http.StatusNotFound},
	} {
		if _, err := ask(s.Server, x.kind, x.namespace, x.name); statusOf(err) != x.status {
			t.Errorf("%s %s/%s: %v, want status %d", x.kind, x.namespace, x.name, err, x.status)
		}
	}
	s.life = t.Context()
	seat := s.seatFor(&access.Rights{Allow: view.Allow{Claims: true, Namespaces: []string{"mine"}}, Lacks: []string{
		"nodes", "nodepools.karpenter.sh", "deployments.apps", "fargateprofiles.nodeless.sh",
	}})
	defer seat.stop()
	for _, x := range []struct {
		kind, namespace string
		status          int
	}{
		{"Pod", "mine", 0},
		{"Pod", "shop", http.StatusForbidden},
		{"Node", "", http.StatusForbidden},
		{"NodeClaim", "", 0},
		{"NodePool", "", http.StatusForbidden},
		{"Deployment", "mine", http.StatusForbidden},
		{"FargateProfile", "", http.StatusForbidden},
		{"StatefulSet", "mine", 0},
		{"EC2NodeClass", "", 0},
	} {
		o, err := ask(seat.server, x.kind, x.namespace, "x")
		if statusOf(err) != x.status {
			t.Errorf("with few rights, %s %s: %v, want status %d", x.kind, x.namespace, err, x.status)
		}
		if err == nil && (len(o.Events) > 0 || !strings.Contains(o.NoEvents, "nodeless rbac --view")) {
			t.Errorf("events that somebody may not list: %+v", o)
		}
	}
	s.o.Object = nil
	if _, err := ask(s.Server, "Pod", "shop", "web"); statusOf(err) != http.StatusNotImplemented {
		t.Errorf("a page without objects: %v", err)
	}
}
