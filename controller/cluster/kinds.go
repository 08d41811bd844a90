package cluster

import (
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelper "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/api/vpccni"
)

// kind is a kind of objects that a State takes in.
type kind struct {
	object         client.Object // an empty one
	update, delete func(*State, client.Object, time.Time)
}

// kinds are all kinds of objects that matter to decisions.
var kinds = []kind{
	kindOf(&corev1.Pod{}, (*State).updatePod, (*State).deletePod),
	kindOf(&corev1.Node{}, func(s *State, o *corev1.Node, now time.Time) {
		_, known := s.objects.nodes.live[keyOf(o)]
		if s.nodes.updateNode(o, now); !known {
			s.devices.nodeCame(o.Name)
		}
	}, func(s *State, o *corev1.Node, now time.Time) {
		if s.nodes.deleteNode(o, now) {
			s.pods.dropPlace(o.Name)
		}
	}),
	managed(kindOf(&karpv1.NodeClaim{}, func(s *State, o *karpv1.NodeClaim, now time.Time) {
		delete(s.nodes.written, o.UID)
		s.nodes.updateClaim(o, now)
	}, (*State).deleteClaim), func(s *State) *table[*karpv1.NodeClaim] { return &s.objects.claims },
		func(o *karpv1.NodeClaim) *karpv1.NodeClassReference { return o.Spec.NodeClassRef }),
	managed(tableOf(&karpv1.NodePool{}, poolTable, poolMatters, (*State).poolChanged), poolTable,
		func(o *karpv1.NodePool) *karpv1.NodeClassReference { return o.Spec.Template.Spec.NodeClassRef }),
	kindOf(&appsv1.DaemonSet{}, (*State).updateDaemonSet, func(s *State, o *appsv1.DaemonSet, now time.Time) {
		if s.objects.daemonSets.drop(o, now) {
			delete(s.daemons.newest, o.UID)
			s.daemonSetsChanged()
		}
	}),
	tableOf(&corev1.LimitRange{}, func(s *State) *table[*corev1.LimitRange] { return &s.objects.limitRanges }, always,
		func(s *State, _ *corev1.LimitRange) { s.daemons.changed() }),
	tableOf(&corev1.Namespace{}, func(s *State) *table[*corev1.Namespace] { return &s.objects.namespaces },
		func(a, b *corev1.Namespace) bool { return !maps.Equal(a.Labels, b.Labels) }, (*State).namespaceChanged),
	tableOf(&v1alpha1.NodeOverlay{}, func(s *State) *table[*v1alpha1.NodeOverlay] { return &s.overlaid.known },
		otherGeneration, func(s *State, _ *v1alpha1.NodeOverlay) { s.overlaid.invalidate() }),
	tableOf(&corev1.PersistentVolumeClaim{},
		func(s *State) *table[*corev1.PersistentVolumeClaim] { return &s.storage.claims }, always,
		func(s *State, o *corev1.PersistentVolumeClaim) { s.pods.reshapeUsers(claimKind, keyOf(o)) }),
	tableOf(&corev1.PersistentVolume{}, func(s *State) *table[*corev1.PersistentVolume] { return &s.storage.volumes },
		always, func(s *State, o *corev1.PersistentVolume) {
			s.pods.reshapeUsers(volumeKind, keyOf(o))
			s.pods.reshapeUsers(volumesKind, clusterKey(storagehelper.GetPersistentVolumeClass(o)))
		}),
	tableOf(&storagev1.StorageClass{}, func(s *State) *table[*storagev1.StorageClass] { return &s.storage.classes },
		always, func(s *State, o *storagev1.StorageClass) {
			s.pods.reshapeUsers(classKind, keyOf(o))
			s.pods.reshapeUsers(classKind, clusterKey("")) // it may be, or have been, the default
		}),
	tableOf(&storagev1.CSINode{}, func(s *State) *table[*storagev1.CSINode] { return &s.storage.csiNodes },
		otherAttachLimits, func(s *State, o *storagev1.CSINode) { s.storage.limitsChanged(o.Name) }),
	kindOf(&policyv1.PodDisruptionBudget{}, func(s *State, o *policyv1.PodDisruptionBudget, now time.Time) {
		s.budgets.updateBudget(o, s.pods.all, now)
	}, func(s *State, o *policyv1.PodDisruptionBudget, now time.Time) { s.budgets.deleteBudget(o, now) }),
}

func poolTable(s *State) *table[*karpv1.NodePool] { return &s.objects.pools }

// owning are the kinds that say how many pods will be created. A State that may not read them expects none.
var owning = []kind{
	ownerOf(&appsv1.ReplicaSet{}, (*owners).updateReplicaSet,
		func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector }),
	ownerOf(&appsv1.StatefulSet{}, (*owners).updateStatefulSet,
		func(o *appsv1.StatefulSet) *metav1.LabelSelector { return o.Spec.Selector }),
	ownerOf(&batchv1.Job{}, (*owners).updateJob, func(*batchv1.Job) *metav1.LabelSelector { return nil }),
	ownerOf(&corev1.ReplicationController{}, (*owners).updateReplicationController,
		func(o *corev1.ReplicationController) *metav1.LabelSelector {
			return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		}),
	tableOf(&corev1.ResourceQuota{}, func(s *State) *table[*corev1.ResourceQuota] { return &s.quotas.known },
		otherQuota, func(s *State, _ *corev1.ResourceQuota) { s.poke() }),
}

// spreading are the kinds from which kube-scheduler derives the pods that default topology spread constraints count.
// They are watched only if there are such constraints.
var spreading = []kind{
	tableOf(&corev1.Service{}, func(s *State) *table[*corev1.Service] { return &s.storage.spread.services }, otherSelector,
		(*State).serviceChanged),
}

// networks are the kinds that say where pods get their addresses. They are watched only where the cluster has them.
var networks = []kind{
	tableOf(&vpccni.ENIConfig{}, func(s *State) *table[*vpccni.ENIConfig] { return &s.subnets.pods.configs },
		otherGeneration, func(s *State, _ *vpccni.ENIConfig) { s.poke() }),
}

// settings are the settings of the VPC CNI. They are watched only where it is installed and the controller may read
// them.
var settings = []kind{
	tableOf(&corev1.ConfigMap{}, func(s *State) *table[*corev1.ConfigMap] { return &s.subnets.windows.settings },
		func(a, b *corev1.ConfigMap) bool { return !maps.Equal(a.Data, b.Data) },
		func(s *State, _ *corev1.ConfigMap) { s.poke() }),
}

// otherQuota reports whether a quota's limits differ. Its status changes with every pod.
func otherQuota(a, b *corev1.ResourceQuota) bool {
	return a.UID != b.UID || !sameResources(a.Spec.Hard, b.Spec.Hard)
}

// kindByType maps the type of an object to its kind.
var kindByType = func() map[reflect.Type]kind {
	out := map[reflect.Type]kind{}
	for _, k := range slices.Concat(kinds, owning, spreading, networks, settings, allocations, capacityKinds) {
		out[reflect.TypeOf(k.object)] = k
	}
	return out
}()

// ownerOf returns the kind of a controller of pods.
func ownerOf[T client.Object](object T, update func(*owners, T, time.Time), selector func(T) *metav1.LabelSelector,
) kind {
	return kindOf(object, func(s *State, o T, now time.Time) {
		s.controls(o.GetUID(), selector(o))
		if !s.noExpected {
			update(s.owners, o, now)
		}
	}, func(s *State, o T, _ time.Time) {
		s.owners.forget(o)
		s.controls(o.GetUID(), nil)
	})
}

// kindOf returns a kind whose objects are handled by the given functions.
func kindOf[T client.Object](object T, update, remove func(*State, T, time.Time)) kind {
	untyped := func(f func(*State, T, time.Time)) func(*State, client.Object, time.Time) {
		return func(s *State, o client.Object, now time.Time) { f(s, o.(T), now) }
	}
	return kind{object, untyped(update), untyped(remove)}
}

// tableOf returns a kind whose objects are kept in a table. It calls changed when one is added, deleted, or changes
// in a way that matters.
func tableOf[T client.Object](object T, in func(*State) *table[T], matters func(old, now T) bool,
	changed func(*State, T),
) kind {
	return kindOf(object, func(s *State, o T, now time.Time) {
		old, known := in(s).live[keyOf(o)]
		if in(s).put(o, now) && (!known || matters(old, o)) {
			changed(s, o)
		}
	}, func(s *State, o T, now time.Time) {
		if in(s).drop(o, now) {
			changed(s, o)
		}
	})
}

func always[T any](_, _ T) bool { return true }

// otherGeneration reports whether two states of an object differ in more than their status.
func otherGeneration[T client.Object](a, b T) bool {
	return a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration() || b.GetGeneration() == 0
}

// Update takes in an object of one of these kinds, and ignores others: Pod, Node, NodeClaim, NodePool, DaemonSet,
// LimitRange, Namespace, NodeOverlay, PodDisruptionBudget, PersistentVolumeClaim, PersistentVolume, StorageClass,
// CSINode, CSIDriver, CSIStorageCapacity, Service, ENIConfig, the kinds of resource.k8s.io, the ConfigMap of the VPC
// CNI, and the kinds that say how many pods will be created: ReplicaSet, StatefulSet, Job, ReplicationController and
// ResourceQuota. The object is kept: do not change it.
func (s *State) Update(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, known := kindByType[reflect.TypeOf(o)]; known {
		k.update(s, o, s.clock.Now())
	}
}

// Delete drops an object that is gone for good.
func (s *State) Delete(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, known := kindByType[reflect.TypeOf(o)]; known {
		k.delete(s, o, s.clock.Now())
	}
}
