package catalog

import "testing"

func amount(n int64) *int64 { return &n }

// nodeadm and Karpenter reserve memory for the pods that the interfaces allow, whatever maxPods says.
func TestMaxPodsDoesNotChangeReservedMemory(t *testing.T) {
	x, _ := Lookup("m5.large")
	plain := NodeOf(x, Kubelet{})
	for _, k := range []Kubelet{
		{MaxPods: amount(110)},
		{MaxPods: amount(5)},
		{PodsPerCore: 2},
		{PrefixDelegation: true},
		{ReservedENIs: 1},
	} {
		n := NodeOf(x, k)
		if n.Pods == plain.Pods {
			t.Errorf("%+v does not change the number of pods", k)
		}
		if n.AllocatableMemoryBytes != plain.AllocatableMemoryBytes {
			t.Errorf("%+v: %d bytes allocatable, want %d", k, n.AllocatableMemoryBytes, plain.AllocatableMemoryBytes)
		}
	}
}

func TestPodsUnderPrefixDelegation(t *testing.T) {
	for name, want := range map[string]int64{
		"m5.large": 110, "m5.24xlarge": 250, "t3.small": 110, "t3.nano": 34,
		"m4.large": 20,
	} {
		x, _ := Lookup(name)
		if got := MaxPods(x, 0, true); got != want {
			t.Errorf("%s takes %d pods, want %d", name, got, want)
		}
	}
	x, _ := Lookup("t3.nano")
	if got := MaxPods(x, 2, false); got != 0 {
		t.Errorf("t3.nano with all interfaces reserved takes %d pods", got)
	}
}

func TestReservedAmountsAreReplaced(t *testing.T) {
	x, _ := Lookup("c7i.2xlarge")
	none := 0.0
	n := NodeOf(x, Kubelet{
		KubeReserved:       Amounts{CPU: amount(100), Memory: amount(1000 * mib), Storage: amount(2 * gib)},
		SystemReserved:     Amounts{CPU: amount(200), Memory: amount(300 * mib), Storage: amount(3 * gib)},
		EvictionHardMemory: &Threshold{Bytes: 84 * mib}, EvictionHardStorage: &Threshold{Bytes: gib},
		VMOverheadPercent: &none, RootVolumeBytes: amount(50 * gib),
	})
	if n.AllocatableCPU != 7700 || n.AllocatableMemoryBytes != 15000*mib || n.AllocatableEphemeralBytes != 44*gib {
		t.Errorf("%+v", n)
	}
	n = NodeOf(x, Kubelet{KubeReserved: Amounts{amount(9000), amount(99999 * mib), amount(99 * gib)}})
	if n.AllocatableCPU != 0 || n.AllocatableMemoryBytes != 0 || n.AllocatableEphemeralBytes != 0 {
		t.Errorf("reserving more than there is: %+v", n)
	}
}

func TestDiskOfANode(t *testing.T) {
	plain, _ := Lookup("m5.large")
	local, _ := Lookup("m5d.large")
	for _, c := range []struct {
		x                     *Type
		k                     Kubelet
		capacity, allocatable int64
	}{
		{plain, Kubelet{}, 20 * gib, 17 * gib},
		{plain, Kubelet{InstanceStoreRAID0: true}, 20 * gib, 17 * gib},
		{local, Kubelet{}, 20 * gib, 17 * gib},
		{local, Kubelet{InstanceStoreRAID0: true}, 75e9, 75e9 - gib - 75e8},
		{plain, Kubelet{RootVolumeBytes: amount(21 * gib)}, 21 * gib, 20*gib - 2254857831},
	} {
		if n := NodeOf(c.x, c.k); n.EphemeralBytes != c.capacity || n.AllocatableEphemeralBytes != c.allocatable {
			t.Errorf("%s %+v: disk %d of which %d allocatable, want %d and %d", c.x.Name, c.k, n.EphemeralBytes,
				n.AllocatableEphemeralBytes, c.capacity, c.allocatable)
		}
	}
}

func TestThresholdsInPercent(t *testing.T) {
	x, _ := Lookup("m5.large")
	plain := NodeOf(x, Kubelet{})
	n := NodeOf(x, Kubelet{EvictionHardMemory: &Threshold{Percent: 100}, EvictionHardStorage: &Threshold{Percent: 25}})
	if n.AllocatableMemoryBytes != plain.AllocatableMemoryBytes+100*mib || n.AllocatableEphemeralBytes != 14*gib {
		t.Errorf("%+v", n)
	}
}

// Bottlerocket reserves memory for the node's maximum of pods; EFA-only interfaces have no addresses, which all
// images take into account.
func TestReservedMemoryFollowsThePodsThatCount(t *testing.T) {
	x, _ := Lookup("m5.large")
	plain := NodeOf(x, Kubelet{}).AllocatableMemoryBytes
	if got := NodeOf(x, Kubelet{MaxPods: amount(9), ReserveByPods: true}).AllocatableMemoryBytes; got != plain+20*11*mib {
		t.Errorf("9 pods in place of 29: %d bytes allocatable, before %d", got, plain)
	}
	if n := NodeOf(x, Kubelet{EFAOnlyENIs: 1}); n.Pods != 20 || n.AllocatableMemoryBytes != plain+9*11*mib {
		t.Errorf("two interfaces in place of three: %d pods, %d bytes allocatable, before %d", n.Pods,
			n.AllocatableMemoryBytes, plain)
	}
}
