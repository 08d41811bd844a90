// Package objects reads single objects of a cluster for its viewers: their YAML, the events about them, and what they
// belong to.
package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Object is an object of the cluster as kubectl shows it.
type Object struct {
	YAML   string  `json:"yaml"`
	Events []Event `json:"events"`
	// Refs are what it belongs to or is made from, if objects of that kind are shown.
	Refs []Ref `json:"refs,omitempty"`
	// NoEvents says why the events could not be read.
	NoEvents string `json:"noEvents,omitempty"`
}

// Event is an event about an object.
type Event struct {
	Last    int64  `json:"last"` // seconds since 1970
	Type    string `json:"type"` // Normal or Warning
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Source  string `json:"source"`
	Count   int    `json:"count"`
}

// Ref names an object that another one belongs to or is made from.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Kind is a kind whose objects are shown.
type Kind struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// Kinds are all kinds whose objects are shown: those that the views show, and those that they are made from. Secrets
// are never among them, even if the viewer may read them.
var Kinds = []Kind{
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
	{
		schema.GroupVersionResource{Group: "nodeless.sh", Version: "v1alpha1", Resource: "microvmhosts"},
		"MicroVMHost", true,
	},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "StatefulSet", true},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, "CronJob", true},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", true},
}

// mostEvents is the maximum number of events shown for an object.
const mostEvents = 100

// Read reads an object and the events about it.
type Read func(ctx context.Context, kind Kind, namespace, name string) (Object, error)

// Reader reads objects with the rights of a user.
func Reader(cfg *rest.Config) (Read, error) {
	reader, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of objects: %w", err)
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	return func(ctx context.Context, k Kind, namespace, name string) (Object, error) {
		var of dynamic.ResourceInterface = reader.Resource(k.GroupVersionResource)
		if namespace != "" {
			of = reader.Resource(k.GroupVersionResource).Namespace(namespace)
		}
		o, err := of.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return Object{}, err
		}
		o.SetManagedFields(nil)
		annotations := o.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(annotations)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return Object{}, err
		}
		list, err := kube.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{
			FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", k.Kind),
				fields.OneTermEqualSelector("involvedObject.name", name)).String(),
		})
		out := Object{YAML: string(text), Events: newest(list), Refs: refs(o)}
		if err != nil {
			out.NoEvents = err.Error()
		}
		return out, nil
	}, nil
}

// refs returns the owners of an object, and the node class or Fargate profile that it names.
func refs(o *unstructured.Unstructured) (out []Ref) {
	add := func(group, kind, name string) {
		for _, k := range Kinds {
			if k.Group != group || k.Kind != kind || name == "" {
				continue
			}
			ref := Ref{Kind: kind, Name: name}
			if k.Namespaced {
				ref.Namespace = o.GetNamespace()
			}
			if !slices.Contains(out, ref) {
				out = append(out, ref)
			}
		}
	}
	for _, owner := range o.GetOwnerReferences() {
		add(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group, owner.Kind, owner.Name)
	}
	for _, path := range [][]string{{"spec", "nodeClassRef"}, {"spec", "template", "spec", "nodeClassRef"}} {
		if class, ok, err := unstructured.NestedStringMap(o.Object, path...); ok && err == nil {
			add(class["group"], class["kind"], class["name"])
		}
	}
	add(v1alpha1.GroupVersion.Group, "FargateProfile", o.GetLabels()[fargate.ProfileLabel])
	return out
}

// newest returns the newest events, the latest first; none for nil.
func newest(events *corev1.EventList) []Event {
	if events == nil {
		return []Event{}
	}
	out := make([]Event, len(events.Items))
	for i := range events.Items {
		e := &events.Items[i]
		count := int(e.Count)
		if e.Series != nil {
			count = int(e.Series.Count)
		}
		out[i] = Event{
			Last: capture.EventTime(e).Unix(), Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(count, 1),
			Source: cmp.Or(e.Source.Component, e.ReportingController),
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(b.Last, a.Last) })
	return out[:min(len(out), mostEvents)]
}
