package buffers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/nodeless/nodeless/controller/translate"
)

// Reasons of the condition ReadyForProvisioning, as upstream's controller writes them.
const (
	reasonResolved            = "Resolved"
	reasonScalableRefNotFound = "ScalableRefNotFound"
	reasonPodTemplateNotFound = "PodTemplateNotFound"
	reasonResolutionFailed    = "ResolutionFailed"
)

// room is what a buffer asks for, or why that cannot be known.
type room struct {
	pod        *corev1.Pod // a placeholder, nil if there is a problem
	generation int64       // of the PodTemplate, 0 of another source
	replicas   int32
	empty      string // why replicas is 0

	reason, problem string
}

func unknown(reason, format string, args ...any) room {
	return room{reason: reason, problem: fmt.Sprintf(format, args...)}
}

// reserve finds out what a buffer asks for and has the world keep it free. An error is trouble that passes; then the world
// goes on with what it knew.
func (k *Keeper) reserve(ctx context.Context, b *autoscaling.CapacityBuffer) (room, error) {
	key := client.ObjectKeyFromObject(b)
	if b.DeletionTimestamp != nil {
		k.o.World.SetVirtual(key, nil, 0)
		return room{}, nil
	}
	r, err := k.resolve(ctx, b)
	if err != nil {
		return room{}, err
	}
	if r.pod == nil {
		r.replicas = 0
	}
	k.o.World.SetVirtual(key, r.pod, int(r.replicas))
	return r, nil
}

// resolve reads the buffer's spec and what it refers to.
func (k *Keeper) resolve(ctx context.Context, b *autoscaling.CapacityBuffer) (room, error) {
	if s := b.Spec.ProvisioningStrategy; s != nil && *s != "" && *s != autoscaling.ActiveProvisioningStrategy {
		return unknown(reasonResolutionFailed, "spec.provisioningStrategy: %q is not supported; use %q", *s, autoscaling.ActiveProvisioningStrategy), nil
	}
	kind, name := source(b)
	field, missing := "spec.podTemplateRef", reasonPodTemplateNotFound
	switch {
	case kind == "":
		return unknown(reasonResolutionFailed, "Neither podTemplateRef nor scalableRef is set; set one of them in spec"), nil
	case b.Spec.PodTemplateRef == nil:
		field, missing = "spec.scalableRef", reasonScalableRefNotFound
		if group := b.Spec.ScalableRef.APIGroup; group != "" && group != appsv1.GroupName {
			return unknown(reasonResolutionFailed, "spec.scalableRef.apiGroup: unsupported API group %q; use %q", group, appsv1.GroupName), nil
		}
		if kinds[kind] == nil || kind == "PodTemplate" {
			return unknown(reasonResolutionFailed, "spec.scalableRef.kind: unsupported kind %q; use Deployment, StatefulSet or ReplicaSet", kind), nil
		}
	}
	if err := k.watch(ctx, kind); err != nil {
		return room{}, err
	}
	o := kinds[kind]()
	if err := k.o.Cache.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			return unknown(missing, "%s.name: %s %q does not exist in namespace %q; create it or correct the name", field, kind, name, b.Namespace), nil
		}
		return room{}, fmt.Errorf("read %s %s/%s: %w", kind, b.Namespace, name, err)
	}
	ranges, err := k.limitRanges(ctx, b.Namespace)
	if err != nil {
		return room{}, err
	}
	template, scale := templateOf(o)
	r := room{pod: placeholder(b, template.Labels, translate.AsCreated(&template.Spec, ranges)), reason: reasonResolved}
	if b.Spec.PodTemplateRef != nil {
		r.generation = o.GetGeneration()
	}
	r.replicas, r.empty = replicas(&b.Spec, scale, resourcehelper.PodRequests(r.pod, resourcehelper.PodResourcesOptions{}))
	return r, nil
}

// limitRanges are a namespace's, by name: the first that says something is the one that counts.
func (k *Keeper) limitRanges(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
	list := &corev1.LimitRangeList{}
	if err := k.o.Cache.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list LimitRanges of namespace %s: %w", namespace, err)
	}
	var out []*corev1.LimitRange
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// templateOf is the pod template of an object that a buffer may refer to, and how many replicas it wants; nil if it has none.
func templateOf(o client.Object) (*corev1.PodTemplateSpec, *int32) {
	one := int32(1)
	scale := func(n *int32) *int32 {
		if n == nil {
			return &one // the API's default
		}
		return n
	}
	switch o := o.(type) {
	case *corev1.PodTemplate:
		return &o.Template, nil
	case *appsv1.Deployment:
		return &o.Spec.Template, scale(o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return &o.Spec.Template, scale(o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, scale(o.Spec.Replicas)
	}
	return nil, nil
}
