package cluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// m5LargeOf returns m5.large, whose three interfaces have 27 addresses for pods, with another maximum of pods.
func m5LargeOf(pods int64) []model.InstanceType {
	t := m5Large()
	t[0].Capacity[model.Pods] = pods
	return t
}

// A node also runs pods on the host network, which need no address of their own: two by the formula of the maximum,
// more if more such DaemonSets run on it. The VPC CNI's environment determines how many addresses there are.
func TestTypesSayHowManyPodsHaveNoAddress(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	w.Update(awsNode(2))
	version := 3
	want := func(what string, pods, short int64) {
		t.Helper()
		w.SetCatalog(class, m5LargeOf(pods), "")
		if got := w.Snapshot().Pools[0].Types[0].Unaddressed; got != short {
			t.Errorf("%s: %d pods, %d of them without an address, want %d", what, pods, got, short)
		}
		if text := w.Unaddressed("p"); (text != "") != (short > 0) {
			t.Errorf("%s: the pool says %q", what, text)
		}
		version++
	}
	want("the limit by the interfaces", 29, 0)
	want("a higher limit", 110, 81)
	for _, name := range []string{"a", "b", "c"} {
		ds := &appsv1.DaemonSet{ObjectMeta: meta(name, version)}
		ds.Spec.Template.Spec.HostNetwork = true
		w.Update(ds)
	}
	want("three DaemonSets on the host network", 110, 80)
	w.Update(awsNode(version+1, corev1.EnvVar{Name: "MAX_ENI", Value: "2"}))
	want("two interfaces", 29, 8)
	w.Update(awsNode(version+1, corev1.EnvVar{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}))
	want("prefixes", 110, 0)

	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: "default"}
	w.Update(awsNode(version + 2))
	w.SetCatalog(auto, m5LargeOf(110), "")
	if got := w.pools.catalogs[auto].types[0].Unaddressed; got != 0 {
		t.Errorf("a node of EKS Auto Mode, whose VPC CNI is its own: %d without an address", got)
	}
}

// Nodes offer branch interfaces while security groups for pods are enabled in the VPC CNI; the trunk interface takes
// the place of one of the other interfaces. Where the CNI is unknown, types keep the cloud's number.
func TestTypesOfferBranchInterfacesByTheVPCCNI(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	offered := func(what string, env []corev1.EnvVar, version int, branches int64) {
		t.Helper()
		if version > 0 {
			w.Update(awsNode(version, env...))
		}
		types := m5LargeOf(29)
		types[0].Capacity[model.PodENI], types[0].Allocatable[model.PodENI] = 9, 9
		w.SetCatalog(class, types, "")
		it := w.Snapshot().Pools[0].Types[0]
		if it.Capacity[model.PodENI] != branches || it.Allocatable[model.PodENI] != branches || it.Unaddressed != 0 {
			t.Errorf("%s: %d of %d branches, %d pods without an address; want %d and 0", what, it.Allocatable[model.PodENI],
				it.Capacity[model.PodENI], it.Unaddressed, branches)
		}
	}
	offered("no VPC CNI", nil, 0, 9)
	offered("by default", nil, 2, 0)
	offered("ENABLE_POD_ENI", []corev1.EnvVar{{Name: "ENABLE_POD_ENI", Value: "true"}}, 3, 9)
}

// rolledTo is the VPC CNI's DaemonSet of the given generation on two nodes.
func rolledTo(version, generation int, updated, ready int32) *appsv1.DaemonSet {
	ds := awsNode(version)
	ds.Generation = int64(generation)
	ds.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: int64(generation), DesiredNumberScheduled: 2, UpdatedNumberScheduled: updated, NumberReady: ready,
	}
	return ds
}

// Pods are not moved while the VPC CNI rolls out. After the rollout, a new node or a node whose CNI pod is no longer
// ready changes nothing; a node that is not ready does not hold up the rollout.
func TestARolloutOfTheCNIHoldsUpMoves(t *testing.T) {
	w, _ := fresh()
	a, b := nodeOf("a", 1), nodeOf("b", 1)
	w.Update(a)
	w.Update(b)
	want := func(what, text string, ds *appsv1.DaemonSet) {
		t.Helper()
		changed(w)
		if w.Update(ds); !changed(w) && text != "" {
			t.Errorf("%s: nobody is told", what)
		}
		if got := w.Snapshot().Unsettled; (got != "") != (text != "") || !strings.Contains(got, text) {
			t.Errorf("%s: %q, want %q", what, got, text)
		}
	}
	want("it runs everywhere", "", rolledTo(2, 1, 2, 2))
	want("a new node has no pod yet", "", rolledTo(3, 1, 1, 1))
	want("it rolls", "its new pods are ready on 1 of 2 nodes", rolledTo(4, 2, 1, 2))
	want("the last pod starts", "its new pods are ready on 1 of 2 nodes", rolledTo(5, 2, 2, 1))
	started := b.DeepCopy() // it and its pod are ready, and it is not initialized
	delete(started.Labels, karpv1.NodeInitializedLabelKey)
	started.ResourceVersion = "6"
	w.Update(started)
	w.Update(claimOf("claim-b", "b", 1))
	want("the pod of a new node runs", "its new pods are ready on 1 of 2 nodes", rolledTo(6, 2, 2, 1))
	joining, cniPod := nodeOf("c", 1), podOf("aws-node-c", "c", "100m", 1)
	joining.Status.Conditions[0].Status = corev1.ConditionFalse
	rolling := rolledTo(10, 2, 3, 2)
	rolling.Status.DesiredNumberScheduled, rolling.UID = 3, "aws-node"
	cniPod.Namespace = rolling.Namespace
	owner := metav1.NewControllerRef(rolling, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	cniPod.OwnerReferences = []metav1.OwnerReference{*owner}
	cniPod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.Update(joining)
	w.Update(cniPod)
	want("the pod of a node that joins is ready before its node", "its new pods are ready on 2 of 3 nodes", rolling)
	w.Delete(cniPod)
	w.Delete(joining)
	lost := b.DeepCopy()
	lost.Status.Conditions[0].Status, lost.ResourceVersion = corev1.ConditionFalse, "7"
	w.Update(lost)
	want("that node is not ready", "", rolledTo(11, 2, 2, 1))

	byHand := rolledTo(12, 3, 0, 2)
	byHand.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	want("its pods are replaced by hand", "", byHand)
}

func TestPendingCriticalPodsHoldUpMoves(t *testing.T) {
	w, _ := fresh()
	critical, other := podOf("coredns", "", "1", 1), podOf("web", "", "1", 1)
	priority := int32(2_000_000_000)
	critical.Spec.Priority = &priority
	for _, p := range []*corev1.Pod{critical, other} {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}
	}
	w.Update(other)
	if got := w.Snapshot().Unsettled; got != "" {
		t.Errorf("a common pod waits: %q", got)
	}
	w.Update(critical)
	if got := w.Snapshot().Unsettled; !strings.Contains(got, "1 pod of critical priority") ||
		!strings.Contains(got, "default/coredns") {
		t.Errorf("coredns waits: %q", got)
	}
	bound := critical.DeepCopy()
	bound.Spec.NodeName, bound.ResourceVersion = "n", "2"
	w.Update(nodeOf("n", 1))
	w.Update(bound)
	if got := w.Snapshot().Unsettled; got != "" {
		t.Errorf("coredns has its node: %q", got)
	}
}

// Nodes drift as soon as their class changes; until the class's new offer is known, its pools launch nothing. An
// existing claim waits as well, and is not launched if its node would have too few addresses.
func TestAChangedClassOffersNothingUntilItIsKnown(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	w.Update(awsNode(2))
	w.SetCatalog(class, m5LargeOf(29), "")
	claim := inFlight("5")
	claim.Spec.NodeClassRef = poolOf("p", 1).Spec.Template.Spec.NodeClassRef
	want := func(what string, ready, wait, fails bool) {
		t.Helper()
		notReady := w.Snapshot().Pools[0].NotReady
		if gotWait, gotFails := w.Preflight(claim); (notReady == "") != ready || gotWait != wait || gotFails != fails {
			t.Errorf("%s: not ready %q, the claim waits %v and fails %v", what, notReady, gotWait, gotFails)
		}
	}
	want("before", true, false, false)
	w.ClassChanged(class)
	want("changed", false, true, false)
	w.Update(awsNode(3, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: "2"}))
	want("the VPC CNI changed, too", false, true, false)
	w.SetCatalog(class, m5LargeOf(110), "")
	want("it offers nodes with too few addresses", true, false, true)
	w.Update(awsNode(4, corev1.EnvVar{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}))
	want("they have enough", true, false, false)
}

// Existing nodes, too, know how many of their pods would have no address.
func TestNodesSayHowManyPodsHaveNoAddress(t *testing.T) {
	w, _ := fresh()
	w.Update(awsNode(1))
	n := nodeOf("n", 1)
	n.Labels[model.LabelInstanceType] = "m5.large"
	w.Update(n)
	if got := w.Snapshot().Nodes[0].Unaddressed; got != 29 {
		t.Errorf("of 58 pods %d have no address, want 29", got)
	}
}
