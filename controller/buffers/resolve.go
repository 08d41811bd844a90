package buffers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// Reasons of the condition ReadyForProvisioning, as upstream's controller writes them.
const (
	reasonResolved            = "Resolved"
	reasonScalableRefNotFound = "ScalableRefNotFound"
	reasonPodTemplateNotFound = "PodTemplateNotFound"
	reasonResolutionFailed    = "ResolutionFailed"
)

// demand is what a buffer requests, or why that cannot be determined.
type demand struct {
	pod        *corev1.Pod // a placeholder, nil if there is a problem
	generation int64       // of the PodTemplate, 0 for another source
	replicas   int32
	empty      string // why replicas is 0

	reason, problem string
}

func unknown(reason, format string, args ...any) demand {
	return demand{reason: reason, problem: fmt.Sprintf(format, args...)}
}

// reserve determines what a buffer requests and makes the cluster state keep it free. An error may be transient: the
// cluster state keeps what it has.
func (c *Controller) reserve(ctx context.Context, b *autoscaling.CapacityBuffer) (demand, error) {
	key := client.ObjectKeyFromObject(b)
	if b.DeletionTimestamp != nil {
		c.o.Cluster.SetVirtual(key, nil, 0)
		return demand{}, nil
	}
	r, err := c.resolve(ctx, b)
	if err != nil {
		return demand{}, err
	}
	if r.pod == nil {
		r.replicas = 0
	}
	c.o.Cluster.SetVirtual(key, r.pod, int(r.replicas))
	return r, nil
}

// resolve reads the buffer's spec and the object it refers to.
func (c *Controller) resolve(ctx context.Context, b *autoscaling.CapacityBuffer) (demand, error) {
	if s := b.Spec.ProvisioningStrategy; s != nil && *s != "" && *s != autoscaling.ActiveProvisioningStrategy {
		return unknown(reasonResolutionFailed, "spec.provisioningStrategy: %q is not supported; use %q", *s,
			autoscaling.ActiveProvisioningStrategy), nil
	}
	kind, name := source(b)
	field, missing := "spec.podTemplateRef", reasonPodTemplateNotFound
	switch {
	case kind == "":
		return unknown(reasonResolutionFailed, "Neither podTemplateRef nor scalableRef is set; set one of them in spec"), nil
	case b.Spec.PodTemplateRef == nil:
		field, missing = "spec.scalableRef", reasonScalableRefNotFound
		if group := b.Spec.ScalableRef.APIGroup; group != "" && group != appsv1.GroupName {
			return unknown(reasonResolutionFailed, "spec.scalableRef.apiGroup: unsupported API group %q; use %q", group,
				appsv1.GroupName), nil
		}
		if kinds[kind] == nil || kind == "PodTemplate" {
			return unknown(reasonResolutionFailed,
				"spec.scalableRef.kind: unsupported kind %q; use Deployment, StatefulSet or ReplicaSet", kind), nil
		}
	}
	if err := c.watch(ctx, kind); err != nil {
		return demand{}, err
	}
	o := kinds[kind]()
	if err := c.o.Cache.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			return unknown(missing, "%s.name: %s %q does not exist in namespace %q; create it or correct the name", field, kind,
				name, b.Namespace), nil
		}
		return demand{}, fmt.Errorf("read %s %s/%s: %w", kind, b.Namespace, name, err)
	}
	ranges := c.o.Cluster.LimitRanges(b.Namespace)
	template, scale := templateOf(o)
	r := demand{pod: placeholder(b, template.Labels, translate.AsCreated(&template.Spec, ranges)), reason: reasonResolved}
	if b.Spec.PodTemplateRef != nil {
		r.generation = o.GetGeneration()
	}
	r.replicas, r.empty = replicas(&b.Spec, scale, resourcehelper.PodRequests(r.pod, resourcehelper.PodResourcesOptions{}))
	return r, nil
}

// templateOf returns the pod template of an object that a buffer may refer to, and its replica count, nil if it has
// none.
func templateOf(o client.Object) (*corev1.PodTemplateSpec, *int32) {
	scale := func(n *int32) *int32 { return ptr.To(ptr.Deref(n, 1)) } // 1 is the API's default
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

// namePrefix begins the names of placeholders, as upstream's do.
const namePrefix = "capacity-buffer-"

// placeholder returns a pod of the template as the engine should see it: with the lowest priority, and without
// volumes that need a claim, since a pod that is never created has no claims.
func placeholder(b *autoscaling.CapacityBuffer, labels map[string]string, spec corev1.PodSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: namePrefix + b.Name, UID: b.UID, CreationTimestamp: b.CreationTimestamp, Labels: labels,
	}}
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
	pod.Spec.Priority = ptr.To(int32(math.MinInt32))
	return pod
}

// ownerOf returns the buffer that a placeholder belongs to.
func ownerOf(p model.PodKey) types.NamespacedName {
	name := strings.TrimPrefix(p.Name, namePrefix)
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		name = name[:i]
	}
	return types.NamespacedName{Namespace: p.Namespace, Name: name}
}
