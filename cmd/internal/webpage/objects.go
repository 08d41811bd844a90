package webpage

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
	"github.com/nodeless/nodeless/view/web"
)

// mostEvents are shown of an object.
const mostEvents = 100

// objects reads objects as the page's own user.
func objects(cfg *rest.Config) (web.ReadObject, error) {
	reader, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of objects: %w", err)
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	return func(ctx context.Context, k web.ObjectKind, namespace, name string) (web.Object, error) {
		var of dynamic.ResourceInterface = reader.Resource(k.GroupVersionResource)
		if namespace != "" {
			of = reader.Resource(k.GroupVersionResource).Namespace(namespace)
		}
		o, err := of.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return web.Object{}, err
		}
		o.SetManagedFields(nil)
		annotations := o.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(annotations)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return web.Object{}, err
		}
		list, err := kube.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{
			FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", k.Kind),
				fields.OneTermEqualSelector("involvedObject.name", name)).String(),
		})
		out := web.Object{YAML: string(text), Events: newest(list), Refs: refs(o)}
		if err != nil {
			out.NoEvents = err.Error()
		}
		return out, nil
	}, nil
}

// refs are the owners of an object, and the node class or Fargate profile that it names.
func refs(o *unstructured.Unstructured) (out []web.ObjectRef) {
	add := func(group, kind, name string) {
		for _, k := range web.ObjectKinds {
			if k.Group != group || k.Kind != kind || name == "" {
				continue
			}
			ref := web.ObjectRef{Kind: kind, Name: name}
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

// newest are the newest of events, the last one first; none of nil.
func newest(events *corev1.EventList) []web.ObjectEvent {
	if events == nil {
		return []web.ObjectEvent{}
	}
	out := make([]web.ObjectEvent, len(events.Items))
	for i := range events.Items {
		e := &events.Items[i]
		count := int(e.Count)
		if e.Series != nil {
			count = int(e.Series.Count)
		}
		out[i] = web.ObjectEvent{
			Last: capture.EventTime(e).Unix(), Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(count, 1),
			Source: cmp.Or(e.Source.Component, e.ReportingController),
		}
	}
	slices.SortStableFunc(out, func(a, b web.ObjectEvent) int { return cmp.Compare(b.Last, a.Last) })
	return out[:min(len(out), mostEvents)]
}
