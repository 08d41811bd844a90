package cluster

import (
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// The reason of a removal is written before each attempt, and taken back after one that failed: if that counted as a
// change, the next cycle would begin at once.
func TestTheReasonOfARemovalIsNoChangeOfANode(t *testing.T) {
	claim := func(annotations map[string]string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{}
		c.Annotations = annotations
		return c
	}
	if claimMatters(claim(nil), claim(map[string]string{translate.AnnotationDisruption: "Empty"})) {
		t.Error("the reason of a removal is a change")
	}
	if !claimMatters(claim(nil), claim(map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"})) {
		t.Error("another annotation is none")
	}
}
