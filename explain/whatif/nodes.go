package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// statusCondition is a condition of a NodeClaim.
type statusCondition = status.Condition

// inFlight is a node that is being launched.
type inFlight struct {
	at        time.Time // when pods can run on it
	candidate model.OfferingKey
}

// launch creates the NodeClaim of a launch and describes its node. The result has no name if the pool no longer
// exists.
func (a *applier) launch(s *model.Snapshot, l *model.Launch, replaces *command) Node {
	np := a.pools[l.Pool]
	at := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
	if np == nil || at < 0 {
		return Node{}
	}
	e := translate.Expected{Candidate: l.Chosen, Price: l.Chosen.Price}
	var chosen *model.InstanceType
	types := s.Pools[at].Types
	for i := range types {
		if types[i].Name == l.Chosen.Type {
			chosen, e.Allocatable = &types[i], types[i].Allocatable
		}
		if types[i].Name == l.Chosen.Type || slices.Contains(l.Types, types[i].Name) {
			e.Capacity = e.Capacity.Max(types[i].Capacity)
		}
	}
	a.seq++
	claim := a.cluster.Names().NewClaim(fmt.Sprintf("%s-new-%d", l.Pool, a.seq), np, *l, chosen, e)
	maps.Copy(claim.Annotations, a.cluster.OverlayAnnotations(l.Pool, l.Types))
	claim.UID, claim.CreationTimestamp = uidOf(claim.Name), metav1.NewTime(a.now())
	if replaces != nil {
		claim.Annotations[translate.AnnotationReplaces] = replaces.ID
		replaces.waits[claim.Name] = true
	}
	a.put(claim)
	a.inFlight[claim.Name] = &inFlight{at: a.now().Add(a.boot), candidate: l.Chosen.OfferingKey}
	return Node{
		Name: claim.Name, Pool: l.Pool, Type: l.Chosen.Type, Zone: l.Chosen.Zone, CapacityType: l.Chosen.CapacityType,
		DollarsPerHour: l.Chosen.Price.Dollars(),
	}
}

// uidOf returns the UID of an object that the forecast creates.
func uidOf(name string) types.UID { return types.UID("forecast-" + name) }

// advanceNodes initializes nodes whose boot time has passed, and terminates drained ones.
func (r *run) advanceNodes() bool {
	busy := false
	var offered *model.Snapshot // new nodes do not change it; one snapshot for each would be quadratic
	for _, name := range slices.Sorted(maps.Keys(r.inFlight)) {
		if f := r.inFlight[name]; !f.at.After(r.now()) {
			if offered == nil {
				offered = r.cluster.Snapshot()
			}
			delete(r.inFlight, name)
			r.initialize(r.claims[name], f, offered)
			busy = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.terminating)) {
		if !r.terminating[name].After(r.now()) {
			r.terminate(name)
			busy = true
		}
	}
	return busy
}

// initialize creates or completes the Node of a claim, with an instance type that the snapshot offers to its pool.
func (r *run) initialize(claim *karpv1.NodeClaim, f *inFlight, offered *model.Snapshot) {
	if claim == nil || claim.DeletionTimestamp != nil {
		return
	}
	claim = claim.DeepCopy()
	now := metav1.NewTime(r.now())
	node := r.nodeOf(claim)
	if node == nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, UID: uidOf("node-" + claim.Name),
			CreationTimestamp: now,
		}}
		node.Spec.ProviderID = cmp.Or(claim.Status.ProviderID, "forecast:///"+claim.Name)
		node.Spec.Taints = slices.Clone(claim.Spec.Taints)
		it := typeOf(offered, claim, f.candidate.Type)
		for _, q := range it.Requirements {
			if !q.Complement && len(q.Values) == 1 {
				metav1.SetMetaDataLabel(&claim.ObjectMeta, q.Key, q.Values[0])
			}
		}
		claim.Labels[model.LabelInstanceType], claim.Labels[model.LabelZone],
			claim.Labels[model.LabelCapacityType] = f.candidate.Type, f.candidate.Zone, f.candidate.CapacityType
		node.Status.Capacity, node.Status.Allocatable = r.cluster.Names().ResourceList(it.Capacity),
			r.cluster.Names().ResourceList(it.Allocatable)
	} else {
		node = node.DeepCopy()
		node.ResourceVersion = ""
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == karpv1.UnregisteredTaintKey ||
				slices.ContainsFunc(claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) })
		})
	}
	labels := maps.Clone(claim.Labels)
	maps.Copy(labels, node.Labels)
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	labels[corev1.LabelHostname] = cmp.Or(labels[corev1.LabelHostname], node.Name)
	node.Labels = labels
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: now,
	}}
	claim.ResourceVersion = ""
	claim.Status.ProviderID, claim.Status.NodeName = node.Spec.ProviderID, node.Name
	for _, c := range []string{
		karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered,
		karpv1.ConditionTypeInitialized,
	} {
		setTrue(claim, c, c, now)
	}
	r.put(claim)
	r.put(node)
	for _, slice := range r.cluster.ExpectedSlices(node.Name, f.candidate.Type) {
		r.put(slice)
	}
}

// setTrue sets a condition to true, unless it already is.
func setTrue(claim *karpv1.NodeClaim, kind, reason string, now metav1.Time) {
	claim.Status.Conditions = slices.DeleteFunc(slices.Clone(claim.Status.Conditions),
		func(c statusCondition) bool { return c.Type == kind && c.Status != metav1.ConditionTrue })
	if !conditions.IsTrue(claim, kind) {
		claim.Status.Conditions = append(claim.Status.Conditions,
			statusCondition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: now})
	}
}

// typeOf returns an instance type as offered to the claim's pool.
func typeOf(s *model.Snapshot, claim *karpv1.NodeClaim, name string) model.InstanceType {
	for i := range s.Pools {
		if s.Pools[i].Name != claim.Labels[karpv1.NodePoolLabelKey] {
			continue
		}
		for _, t := range s.Pools[i].Types {
			if t.Name == name {
				return t
			}
		}
	}
	return model.InstanceType{Name: name}
}

// expectedOf returns the offering of a node that is being launched; its fields are empty if they are unknown.
func (r *run) expectedOf(claim *karpv1.NodeClaim) model.OfferingKey {
	s := r.cluster.Snapshot()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Claim == claim.Name {
			return model.OfferingKey{Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType}
		}
	}
	return model.OfferingKey{}
}

func (r *run) nodeOf(claim *karpv1.NodeClaim) *corev1.Node {
	if claim == nil || claim.Status.ProviderID == "" {
		return nil
	}
	if nodes := r.cluster.NodesByProviderID(claim.Status.ProviderID); len(nodes) > 0 {
		return nodes[0]
	}
	return nil
}

// terminate deletes a node and its claim.
func (r *run) terminate(name string) {
	claim := r.claims[name]
	delete(r.terminating, name)
	delete(r.draining, name)
	delete(r.inFlight, name)
	if claim == nil {
		return
	}
	if node := r.nodeOf(claim); node != nil {
		for _, pod := range r.cluster.PodsOnNode(node.Name) {
			if p := translate.ReadPod(pod); p.Daemon() || p.Terminal {
				r.removePod(pod)
			} else { // it tolerates the taint of nodes being removed
				r.evict(pod, node.Name)
			}
		}
		for _, pod := range r.waitingFor(node.Name) {
			r.removePod(pod)
		}
		delete(r.nodes, node.Name)
		r.cluster.Delete(node)
	}
	delete(r.claims, name)
	r.cluster.Delete(claim)
	r.lastChange = r.now()
}

// measuredBoot returns the median boot time of the cluster's nodes, 0 if it is unknown.
func measuredBoot(claims map[string]*karpv1.NodeClaim) time.Duration {
	var took []time.Duration
	for _, c := range claims {
		for _, x := range c.Status.Conditions {
			if d := x.LastTransitionTime.Sub(c.CreationTimestamp.Time); x.Type == karpv1.ConditionTypeInitialized &&
				x.Status == metav1.ConditionTrue && d > 0 {
				took = append(took, d)
			}
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func nodeOfModel(n *model.Node) Node {
	return Node{
		Name: n.Name, Pool: n.Pool, Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType,
		DollarsPerHour: n.Price.Dollars(),
	}
}
