package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
)

// objectAPI serves single objects to viewers who may list their kind.
type objectAPI struct {
	read  objects.Read // nil = there are none to read
	allow *view.Allow  // nil = everything
	lacks []string     // the kinds that the viewer may not list in the whole cluster, as in access.Rights
}

// answer returns the YAML of an object and the events about it.
func (x objectAPI) answer(r *http.Request) (any, error) {
	kind, namespace, name := r.URL.Query().Get("kind"), r.URL.Query().Get("namespace"), r.URL.Query().Get("name")
	if x.read == nil {
		return nil, failure{http.StatusNotImplemented, errors.New("this page was started without the cluster's objects")}
	}
	i := slices.IndexFunc(objects.Kinds, func(k objects.Kind) bool { return k.Kind == kind })
	if i < 0 || name == "" || objects.Kinds[i].Namespaced != (namespace != "") {
		return nil, failure{http.StatusBadRequest, fmt.Errorf("kind=%q, namespace=%q, name=%q: name an object of a kind "+
			"that is shown, such as a Pod or a NodePool, with its namespace if it is in one", kind, namespace, name)}
	}
	k := objects.Kinds[i]
	if resource := k.GroupResource().String(); !x.allows(&k, namespace) {
		return nil, lacking("YAML and events of a "+kind, resource)
	}
	o, err := x.read(r.Context(), k, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, failure{http.StatusNotFound, err}
	case apierrors.IsForbidden(err):
		return nil, failure{http.StatusForbidden, fmt.Errorf("the page itself may not read it: %w", err)}
	case err != nil:
		return nil, err
	}
	lines := strings.Split(o.YAML, "\n")
	for i := range lines {
		lines[i] = view.Escape(lines[i])
	}
	o.YAML = strings.Join(lines, "\n")
	if x.allow != nil && !x.allow.Events {
		o.Events, o.NoEvents = nil, lacking("events", "events").Error()
	}
	for i := range o.Events {
		e := &o.Events[i]
		e.Type, e.Reason, e.Message, e.Source = view.Escape(e.Type), view.Escape(e.Reason), view.Escape(e.Message),
			view.Escape(e.Source)
	}
	for i := range o.Refs {
		o.Refs[i].Name = view.Escape(o.Refs[i].Name)
	}
	return o, nil
}

// allows reports whether the viewer may list objects of a kind in a namespace.
func (x objectAPI) allows(k *objects.Kind, namespace string) bool {
	switch {
	case x.allow == nil:
		return true
	case k.Kind == "Pod":
		return x.allow.Pods || slices.Contains(x.allow.Namespaces, namespace)
	}
	return !slices.Contains(x.lacks, k.GroupResource().String())
}
