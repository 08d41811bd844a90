package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func TestAClaimIsFoundByItsMachinesID(t *testing.T) {
	w := New(Options{})
	claim := func(name, version, providerID string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: version}}
		c.Status.ProviderID = providerID
		return c
	}
	want := func(id, name string) {
		t.Helper()
		got := ""
		if c := w.ClaimByInstanceID(id); c != nil {
			got = c.Name
		}
		if got != name {
			t.Errorf("%s is of claim %q, want %q", id, got, name)
		}
	}
	w.Update(claim("web", "1", ""))
	want("", "")
	want("i-1", "")
	w.Update(claim("web", "2", "aws:///us-west-2a/i-1"))
	want("i-1", "web")
	want("us-west-2a", "")
	w.Delete(claim("web", "3", "aws:///us-west-2a/i-1"))
	want("i-1", "")
}
