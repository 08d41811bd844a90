package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// managing returns a State that manages the kind of class, and a reference to a class of another controller.
func managing() (*State, *karpv1.NodeClassReference) {
	return New(Options{
		Clock:      clock.NewVirtual(noon),
		ClassKinds: func() []schema.GroupKind { return []schema.GroupKind{{Group: "g", Kind: "K"}} },
	}), &karpv1.NodeClassReference{Group: "other.example", Kind: "NodeClass", Name: "c"}
}

// The nodes of another controller, such as that of EKS Auto Mode, count as capacity, and nothing else of it does.
func TestObjectsOfAnotherControllerAreLeftToIt(t *testing.T) {
	w, other := managing()
	pool, claim, node := poolOf("p", 1), claimOf("c", "n", 2), nodeOf("n", 3)
	pool.Spec.Template.Spec.NodeClassRef, claim.Spec.NodeClassRef = other, other
	claim.DeletionTimestamp = nil
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	w.Update(pool)
	w.Update(claim)
	w.ObserveClaim(claim)
	w.Update(node)
	w.Update(podOf("a", "n", "1", 4))
	s := w.Snapshot()
	if len(w.NodePools())+len(w.Claims())+len(s.Pools) > 0 || w.ClaimByProviderID(node.Spec.ProviderID) != nil {
		t.Errorf("it has %d NodePools and %d NodeClaims, and plans for %d pools", len(w.NodePools()), len(w.Claims()),
			len(s.Pools))
	}
	if len(s.Nodes) != 1 || s.Nodes[0].Claim != "" || len(s.Nodes[0].Pods) != 1 {
		t.Errorf("nodes %+v", s.Nodes)
	}
	if movers(s) != "" {
		t.Errorf("%s must be rescheduled because of another controller's taint", movers(s))
	}
}

// An object of another controller may take the name of one of ours, and the watch may show only the newer object.
func TestAnObjectOfAnotherControllerReplacesOneOfItsName(t *testing.T) {
	w, other := managing()
	w.Update(poolOf("p", 10))
	w.Update(claimOf("c", "", 11))
	pool, claim := poolOf("p", 5), claimOf("c", "", 6)
	pool.Spec.Template.Spec.NodeClassRef, claim.Spec.NodeClassRef = other, other
	pool.UID, claim.UID = "other-pool", "other-claim"
	w.Update(pool)
	w.Update(claim)
	if len(w.NodePools()) != 1 || len(w.Claims()) != 1 {
		t.Error("a late event removes a newer object")
	}
	pool, claim = pool.DeepCopy(), claim.DeepCopy()
	pool.ResourceVersion, claim.ResourceVersion = "20", "21"
	w.Update(pool)
	w.Update(claim)
	if s := w.Snapshot(); len(w.NodePools())+len(w.Claims())+len(s.Nodes) > 0 {
		t.Errorf("%d NodePools, %d NodeClaims and %d nodes are left", len(w.NodePools()), len(w.Claims()), len(s.Nodes))
	}
}

func TestWhatIsManaged(t *testing.T) {
	w, _ := managing()
	for ref, want := range map[karpv1.NodeClassReference]bool{
		{Group: "g", Kind: "K"}:                              true,
		{Group: "g", Kind: "Mistyped"}:                       true,
		{Group: "eks.amazonaws.com", Kind: "NodeClass"}:      false,
		{Group: "karpenter.azure.com", Kind: "AKSNodeClass"}: false,
	} {
		if got := w.Manages(&ref); got != want {
			t.Errorf("a class of kind %s in group %s is managed: %t", ref.Kind, ref.Group, got)
		}
	}
	for label, want := range map[string]bool{"g/k": true, "g/other": false, "eks.amazonaws.com/nodeclass": false} {
		node := nodeOf("n", 1)
		node.UID = types.UID(label)
		node.Labels[label] = "default"
		if got := w.ManagesNode(node); got != want {
			t.Errorf("a Node with the label %s is managed: %t", label, got)
		}
	}
	if all, _ := fresh(); !all.Manages(&karpv1.NodeClassReference{Group: "any"}) || !all.ManagesNode(nodeOf("n", 1)) {
		t.Error("without kinds, not all is managed")
	}
}
