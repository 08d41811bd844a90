package catalog

import "testing"

// A Windows node takes the same number of pods whatever its interfaces allow, and has addresses on its first
// interface only.
func TestANodeOfWindows(t *testing.T) {
	large, _ := Lookup("m5.large") // three interfaces with ten addresses each, nine branches
	n := NodeOf(large, Kubelet{Windows: true})
	if n.Pods != 110 || n.PrivateIPv4 != 9 || n.PodENI != 0 || n.EphemeralBytes != 50*gib {
		t.Errorf("%d pods, %d addresses, %d branch interfaces, %d bytes of disk", n.Pods, n.PrivateIPv4, n.PodENI,
			n.EphemeralBytes)
	}
	if reserved := n.MemoryBytes - n.AllocatableMemoryBytes; reserved != (255+11*110+100)*mib {
		t.Errorf("%d MiB are reserved, want what 110 pods ask for", reserved/mib)
	}
	five := int64(5)
	if n := NodeOf(large, Kubelet{Windows: true, MaxPods: &five}); n.Pods != 5 ||
		n.MemoryBytes-n.AllocatableMemoryBytes != (255+11*5+100)*mib {
		t.Errorf("with maxPods: %+v", n)
	}
	if n := NodeOf(large, Kubelet{}); n.PrivateIPv4 != 0 {
		t.Errorf("a node of Linux offers %d addresses", n.PrivateIPv4)
	}
	// One address of its own, one for each pod, and no spare ones.
	steps := DefaultCNI().Steps(large.OnWindows(), 110)
	if first, last := steps[0], steps[len(steps)-1]; first.Total != 1 || last != (AddressStep{9, 10}) {
		t.Errorf("it takes %v", steps)
	}
}
