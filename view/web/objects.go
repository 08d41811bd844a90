package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodeless/nodeless/view"
)

// Object is an object of the cluster as kubectl shows it.
type Object struct {
	YAML   string        `json:"yaml"`
	Events []ObjectEvent `json:"events"`
	// Refs are what it belongs to or is made from, as far as that is shown too.
	Refs []ObjectRef `json:"refs,omitempty"`
	// NoEvents says why there are none, if they could not be read.
	NoEvents string `json:"noEvents,omitempty"`
}

// ObjectEvent is an event about an object.
type ObjectEvent struct {
	Last    int64  `json:"last"` // seconds since 1970
	Type    string `json:"type"` // Normal or Warning
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Source  string `json:"source"`
	Count   int    `json:"count"`
}

// ObjectRef names an object that another one belongs to or is made from.
type ObjectRef struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ObjectKind is a kind whose objects are shown.
type ObjectKind struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// ObjectKinds are all kinds whose objects are shown: what the page shows of a cluster, and what that is made from. A
// Secret is not among them, whatever its reader may do.
var ObjectKinds = []ObjectKind{
	{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod", true},
	{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "Node", false},
	{schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}, "NodeClaim", false},
	{schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}, "NodePool", false},
	{
		schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
		"EC2NodeClass", false,
	},
	{schema.GroupVersionResource{Group: "eks.amazonaws.com", Version: "v1", Resource: "nodeclasses"}, "NodeClass", false},
	{schema.GroupVersionResource{Group: "nodeless.sh", Version: "v1alpha1", Resource: "nodegroups"}, "NodeGroup", false},
	{
		schema.GroupVersionResource{Group: "nodeless.sh", Version: "v1alpha1", Resource: "fargateprofiles"},
		"FargateProfile", false,
	},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "StatefulSet", true},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, "CronJob", true},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", true},
}

// objects answers with single objects to those who may list what they belong to.
type objects struct {
	read  ReadObject  // nil = there are none to read
	allow *view.Allow // nil = everything
	lacks []string    // the kinds that those who look may not list in the whole cluster, as access.Rights has them
}

// answer is the YAML of an object and the events about it.
func (x objects) answer(r *http.Request) (any, error) {
	kind, namespace, name := r.URL.Query().Get("kind"), r.URL.Query().Get("namespace"), r.URL.Query().Get("name")
	if x.read == nil {
		return nil, failure{http.StatusNotImplemented, errors.New("this page was started without the cluster's objects")}
	}
	i := slices.IndexFunc(ObjectKinds, func(k ObjectKind) bool { return k.Kind == kind })
	if i < 0 || name == "" || ObjectKinds[i].Namespaced != (namespace != "") {
		return nil, failure{http.StatusBadRequest, fmt.Errorf("kind=%q, namespace=%q, name=%q: name an object of a kind "+
			"that is shown, such as a Pod or a NodePool, with its namespace if it is in one", kind, namespace, name)}
	}
	k := ObjectKinds[i]
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

// allows reports whether those who look may list what an object belongs to.
func (x objects) allows(k *ObjectKind, namespace string) bool {
	switch {
	case x.allow == nil:
		return true
	case k.Kind == "Pod":
		return x.allow.Pods || slices.Contains(x.allow.Namespaces, namespace)
	}
	return !slices.Contains(x.lacks, k.GroupResource().String())
}

// ReadObject reads an object and the events about it.
type ReadObject func(ctx context.Context, kind ObjectKind, namespace, name string) (Object, error)
