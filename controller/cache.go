package controller

import (
	"context"
	"log/slog"
	"sync"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/api/vpccni"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/translate"
)

// scheme knows the built-in kinds, Karpenter's and its AWS provider's.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err) // the built-in kinds always fit an empty scheme
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	s.AddKnownTypes(karpenter, &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(s, karpenter)
	amazon := schema.GroupVersion{Group: "karpenter.k8s.aws", Version: "v1"}
	s.AddKnownTypes(amazon, &ec2v1.EC2NodeClass{}, &ec2v1.EC2NodeClassList{})
	metav1.AddToGroupVersion(s, amazon)
	buffers := schema.GroupVersion{Group: autoscaling.Group, Version: "v1beta1"}
	s.AddKnownTypes(buffers, &autoscaling.CapacityBuffer{}, &autoscaling.CapacityBufferList{})
	metav1.AddToGroupVersion(s, buffers)
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, eksv1.AddToScheme, vpccni.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // so do our own
		}
	}
	overlays := schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"}
	s.AddKnownTypes(overlays, &karpv1alpha1.NodeOverlay{}, &karpv1alpha1.NodeOverlayList{})
	metav1.AddToGroupVersion(s, overlays)
	return s
})

// theVPCCNIs selects the one ConfigMap of kube-system that is watched.
var theVPCCNIs = fields.OneTermEqualSelector(metav1.ObjectNameField, catalog.WindowsIPAMMap)

// newCache returns a cache of the parts of objects that decisions need.
func newCache(cfg *rest.Config) (cache.Cache, error) {
	return cache.New(cfg, cache.Options{
		Scheme: scheme(), DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: translate.LeanPod},
			&corev1.ConfigMap{}: {
				Namespaces: map[string]cache.Config{metav1.NamespaceSystem: {}}, Field: theVPCCNIs,
			},
			&batchv1.CronJob{}: {Transform: leanTemplate},
			// The first two are watched only if a CapacityBuffer refers to one of their kind.
			&corev1.PodTemplate{}: {Transform: leanTemplate}, &appsv1.Deployment{}: {Transform: leanTemplate},
			&appsv1.StatefulSet{}: {Transform: leanTemplate}, &appsv1.ReplicaSet{}: {Transform: leanTemplate},
			&batchv1.Job{}: {Transform: leanTemplate}, &corev1.ReplicationController{}: {Transform: leanTemplate},
		},
	})
}

// leanTemplate removes from a workload everything that decides neither where its pods may run nor how many will be
// created.
func leanTemplate(o any) (any, error) {
	object, ok := o.(client.Object)
	if !ok {
		return o, nil
	}
	object.SetManagedFields(nil)
	object.SetAnnotations(nil)
	var spec *corev1.PodSpec
	switch w := o.(type) {
	case *corev1.PodTemplate:
		spec = &w.Template.Spec
	case *appsv1.Deployment:
		spec, w.Status = &w.Spec.Template.Spec, appsv1.DeploymentStatus{}
	case *appsv1.StatefulSet:
		spec, w.Status, w.Spec.VolumeClaimTemplates = &w.Spec.Template.Spec, appsv1.StatefulSetStatus{}, nil
	case *batchv1.CronJob:
		spec = &w.Spec.JobTemplate.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		spec, w.Status = &w.Spec.Template.Spec, appsv1.ReplicaSetStatus{Conditions: w.Status.Conditions}
	case *batchv1.Job:
		w.Spec.Template = corev1.PodTemplateSpec{}
		w.Status = batchv1.JobStatus{Conditions: w.Status.Conditions, Succeeded: w.Status.Succeeded}
		return o, nil
	case *corev1.ReplicationController:
		w.Spec.Template, w.Status = nil, corev1.ReplicationControllerStatus{Conditions: w.Status.Conditions}
		return o, nil
	default:
		return o, nil
	}
	translate.LeanContainers(spec.InitContainers)
	translate.LeanContainers(spec.Containers)
	return o, nil
}

// readable returns a function that reports whether the controller may read objects of a kind, and logs it if not.
func readable(api client.Client, log *slog.Logger) func(context.Context, client.Object) bool {
	return func(ctx context.Context, object client.Object) bool {
		kind, err := api.GroupVersionKindFor(object)
		if err != nil {
			return false
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		among := []client.ListOption{client.Limit(1)}
		if _, ok := object.(*corev1.ConfigMap); ok {
			its := client.MatchingFieldsSelector{Selector: theVPCCNIs}
			among = append(among, client.InNamespace(metav1.NamespaceSystem), its)
		}
		err = api.List(ctx, list, among...)
		if apierrors.IsForbidden(err) {
			log.Warn("not allowed to list a kind; plans ignore its objects until the controller's role allows it (nodeless "+
				"rbac) and the controller is restarted", "kind", kind.Kind, "error", err)
			return false
		}
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false // the API server does not serve it
		}
		return true // the watch retries after any other error
	}
}
