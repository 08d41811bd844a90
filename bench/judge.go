package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// faultsOf are breaches of what must hold whatever the order in which the pods are bound: hosts keep pods apart that want it, and a
// pod with affinity to its like in a zone is in the zone of all of them. Both sides are judged by it; spreads depend on the order and are
// left to engine/check and to Karpenter.
func faultsOf(o *outcome, pods map[string]*corev1.Pod) (faults []string) {
	zoneOf := map[string]string{}
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
				group := fmt.Sprint(pods[name].Labels)
				if len(m.zones) != 1 {
					faults = append(faults, fmt.Sprintf("group %s: a machine may be in any of %v", group, m.zones))
				} else if zone, ok := zoneOf[group]; ok && zone != m.zones[0] {
					faults = append(faults, fmt.Sprintf("group %s is in %s and %s", group, zone, m.zones[0]))
				} else {
					zoneOf[group] = m.zones[0]
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
	return faults
}
