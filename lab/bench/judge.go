package main

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// faultsOf returns violations of rules that hold in whatever order the pods are bound: pods with host anti-affinity
// are on separate nodes, and pods with affinity to each other in a zone are all in the same zone. Both sides are
// judged by it; spreads depend on the order and are left to engine/check and to Karpenter.
func faultsOf(o *outcome, pods map[string]*corev1.Pod) (faults []string) {
	groups := map[string][]*machine{}
	seen := map[string]bool{}
	for i := range o.machines {
		m := &o.machines[i]
		apart := 0
		for _, name := range m.pods {
			if seen[name] {
				faults = append(faults, "pod "+name+" is on two machines")
			}
			seen[name] = true
			a := pods[name].Spec.Affinity
			switch {
			case a == nil:
			case a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
				apart++
			case a.PodAffinity != nil:
				if g := fmt.Sprint(pods[name].Labels); !slices.Contains(groups[g], m) {
					groups[g] = append(groups[g], m)
				}
			}
		}
		if apart > 1 {
			faults = append(faults, fmt.Sprintf("machine %d has %d pods that want a host of their own", i, apart))
		}
	}
	if len(seen)+o.unplaced != len(pods) {
		faults = append(faults, fmt.Sprintf("%d pods have an answer, of %d", len(seen)+o.unplaced, len(pods)))
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if fault := notTogether(groups[g]); fault != "" {
			faults = append(faults, fmt.Sprintf("group %s: %s", g, fault))
		}
	}
	return faults
}

// notTogether says how machines can end up in different zones, or "" if they cannot. A single machine may be
// anywhere.
func notTogether(machines []*machine) string {
	if len(machines) < 2 {
		return ""
	}
	for _, m := range machines {
		if len(m.zones) != 1 {
			return fmt.Sprintf("one of its %d machines may be in any of %v", len(machines), m.zones)
		}
		if m.zones[0] != machines[0].zones[0] {
			return fmt.Sprintf("it is in %s and %s", machines[0].zones[0], m.zones[0])
		}
	}
	return ""
}
