package roll

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// claimOf returns a ready NodeClaim that matches the pool's current spec.
func claimOf(p *karpv1.NodePool, name string) karpv1.NodeClaim {
	c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		karpv1.NodePoolHashAnnotationKey:        p.Hash(),
		karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
	}}}
	c.Status.NodeName = "node-" + name
	c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: "True"}}
	return c
}

func TestAForcedRollMakesAllNodesNeedAnUpdateOnce(t *testing.T) {
	p := &Pool{NodePool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}}
	p.Claims = []karpv1.NodeClaim{claimOf(p.NodePool, "a"), claimOf(p.NodePool, "b")}
	if r := p.Row(); r.Status != Ready || r.Ready != 2 || r.NeedUpdate != 0 || p.Rolling() {
		t.Fatalf("before the roll: %+v", r)
	}
	p.NodePool = p.Roll(begin)
	if r := p.Row(); r.Status != Updating || r.NeedUpdate != 2 || !p.Rolling() {
		t.Errorf("as the roll begins: %+v", r)
	}
	p.Claims[0] = claimOf(p.NodePool, "c")
	if r := p.Row(); r.NeedUpdate != 1 || r.Ready != 1 || r.Outdated[0].Node != "node-b" || !p.Rolling() {
		t.Errorf("on the way: %+v", r)
	}
	p.Claims[1] = claimOf(p.NodePool, "d")
	if r := p.Row(); r.Status != Ready || r.Ready != 2 || p.Rolling() {
		t.Errorf("in the end: %+v", r)
	}
	if again := p.Roll(begin.Add(time.Hour)); again.Hash() == p.Hash() {
		t.Error("a second roll changes nothing")
	}
}

// The annotation of a forced roll stays in the template: a later change makes nodes need an update, but is no roll.
func TestAForcedRollEndsWithTheNodesFromBeforeIt(t *testing.T) {
	p := &Pool{NodePool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}}
	p.NodePool = p.Roll(begin)
	p.Claims = []karpv1.NodeClaim{claimOf(p.NodePool, "a"), claimOf(p.NodePool, "b")}
	for i := range p.Claims {
		p.Claims[i].CreationTimestamp = metav1.NewTime(begin.Add(time.Minute))
	}
	p.Claims[0].Annotations[karpv1.NodePoolHashAnnotationKey] = "1"
	if r := p.Row(); p.Rolling() || r.Status != NeedsUpdate || r.NeedUpdate != 1 {
		t.Errorf("after the roll: it is rolling %t, %+v", p.Rolling(), r)
	}
	p.NodePool = p.Roll(begin.Add(time.Hour))
	if !p.Rolling() {
		t.Error("the second roll has not begun")
	}
	p.Spec.Template.Annotations["nodeless.sh/rolled-at"] = "yesterday"
	if p.Rolling() {
		t.Error("a roll from no time is in progress")
	}
}

func TestADriftedNodeNeedsAnUpdate(t *testing.T) {
	p := &Pool{NodePool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}}
	p.Claims = []karpv1.NodeClaim{claimOf(p.NodePool, "a"), claimOf(p.NodePool, "b")}
	p.Claims[0].Status.Conditions = append(p.Claims[0].Status.Conditions,
		status.Condition{Type: karpv1.ConditionTypeDrifted, Status: "True", Reason: "AMIDrift"})
	p.Claims[1].Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "v0" // not comparable
	p.Claims[1].Annotations[karpv1.NodePoolHashAnnotationKey] = "1"
	if r := p.Row(); r.Status != NeedsUpdate || r.NeedUpdate != 1 || r.Outdated[0].Why != "AMIDrift" {
		t.Errorf("%+v", r)
	}
}
