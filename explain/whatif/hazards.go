package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Kinds of Hazards.
const (
	HazardAddresses = "PodsWithoutAddress"  // more pods than addresses on a node
	HazardRestart   = "DaemonSetRestart"    // a DaemonSet's pod competes for its slot
	HazardShutOut   = "DaemonSetShutOut"    // a DaemonSet without a critical priority on a full node
	HazardRoll      = "NoRoomForRoll"       // the other nodes have no room for the pods of one
	HazardBlocked   = "RollBlocked"         // nodes with pods that must not be evicted
	HazardStuck     = "CriticalPodsPending" // critical pods that are already Pending
	HazardMixed     = "MixedNodes"          // nodes that keep their limit of pods
	HazardPrefixes  = "PrefixesOfSubnets"   // prefixes that subnets must provide
	HazardReserved  = "KubeReservedGrows"   // memory that pods lose
	HazardControl   = "SingleControlPlane"  // no API server while the one control-plane node is replaced
)

// Hazard quantifies a problem that a change of the limit of pods, the VPC CNI or a DaemonSet causes before it is
// complete.
type Hazard struct {
	Kind  string `json:"kind"`
	Nodes int    `json:"nodes,omitempty"`
	Pods  int    `json:"pods,omitempty"`
	Why   string `json:"why"`
}

// hazards compares the cluster before and after the change. It returns none unless the change affects the limit of
// pods or a DaemonSet.
func hazards(was, then *facts) []Hazard {
	var out []Hazard
	limits := slices.ContainsFunc(was.nodes, func(n nodeFacts) bool { return then.takesThen(&n) != was.takesThen(&n) })
	if was.cni != nil && then.cni != nil && (limits || *was.cni != *then.cni) {
		out = slices.Concat(out, withoutAddress(was, then), prefixesNeeded(was, then))
	}
	if limits {
		out = slices.Concat(out, noRoomForRoll(was, then), blocked(was, then), mixedNodes(was, then),
			reservedGrows(was, then))
	}
	if rolling := rollingDaemons(was, then); len(rolling) > 0 {
		out = slices.Concat(out, restarts(was, rolling), shutOut(was, then))
	}
	if n := len(was.critical); len(out) > 0 && n > 0 {
		out = append(out, Hazard{Kind: HazardStuck, Pods: n, Why: fmt.Sprintf("%s of critical priority %s Pending already "+
			"(%s): tools that wait for them to run, such as kops rolling-update, do not get past the first node",
			reason.Count(n, "pod"), agree(n, "is", "are"), reason.Some(was.critical, 3))})
	}
	return out
}

// withoutAddress says how many pods per node would have no address, for each group of equal nodes. It looks at both
// intermediate states of a node, because kubelet and aws-node do not change at the same time.
func withoutAddress(was, then *facts) []Hazard {
	type group struct {
		typ                    string
		takes, host, now, next int
		hang                   int // pods without an address in the worse state
	}
	nodes := map[group]int{}
	for i := range was.nodes {
		n := &was.nodes[i]
		t, ok := catalog.Lookup(n.typ)
		if !ok || n.windows {
			continue
		}
		g := group{typ: n.typ, takes: then.takesThen(n), host: n.host}
		g.now, g.next = was.cni.PodAddresses(t), then.cni.PodAddresses(t)
		g.hang = max(was.cni.Unaddressed(t, g.takes, n.host), then.cni.Unaddressed(t, g.takes, n.host))
		if g.hang > was.cni.Unaddressed(t, n.takes, n.host) {
			nodes[g]++
		}
	}
	var out []Hazard
	for g, n := range nodes {
		why := fmt.Sprintf("%s of %s would take %s each, %d of them on the host network. The VPC CNI gives a node addresses "+
			"for %d now and for %d with the change: up to %s of each would stay ContainerCreating (failed to assign an IP "+
			"address to container)", reason.Count(n, "node"), g.typ, reason.Count(g.takes, "pod"), g.host, g.now, g.next,
			reason.Count(g.hang, "pod"))
		if g.takes-g.host <= g.next {
			why += " where the kubelet changes before aws-node. Change the DaemonSet first and wait until it has rolled; " +
				"then change the limit of pods"
		}
		out = append(out, Hazard{HazardAddresses, n, n * g.hang, why})
	}
	slices.SortFunc(out, func(a, b Hazard) int { return cmp.Compare(a.Why, b.Why) })
	return out
}

// prefixesNeeded says how many /28 prefixes the running pods need.
func prefixesNeeded(was, then *facts) []Hazard {
	if !then.cni.PrefixDelegation || was.cni.PrefixDelegation {
		return nil
	}
	prefixes, nodes := 0, 0
	var xen []string
	for i := range was.nodes {
		n := &was.nodes[i]
		t, ok := catalog.Lookup(n.typ)
		switch {
		case !ok || n.windows:
		case !then.cni.Prefixes(t):
			xen = append(xen, n.name)
		default:
			nodes++
			prefixes += then.cni.Holding(t, n.pods-n.host, then.takesThen(n)).Prefixes
		}
	}
	var out []Hazard
	if prefixes > 0 {
		out = append(out, Hazard{HazardPrefixes, nodes, 0, fmt.Sprintf("the running pods take %d /28 %s, each of 16 "+
			"contiguous addresses, %d in all. EC2 does not say whether a subnet has them: one whose free addresses are "+
			"scattered may have none. A subnet CIDR reservation of type prefix keeps them", prefixes,
			agree(prefixes, "prefix", "prefixes"), catalog.PrefixSize*prefixes)})
	}
	if n := len(xen); n > 0 {
		out = append(out, Hazard{HazardPrefixes, n, 0, fmt.Sprintf("%s %s no prefixes (%s): the type is not built on nitro",
			reason.Count(n, "node"), agree(n, "gets", "get"), reason.Some(xen, 3))})
	}
	return out
}

// restarts says on how many nodes the pod of a rolling DaemonSet competes with pending pods.
func restarts(was *facts, rolling []string) []Hazard {
	full := was.full()
	if len(full) == 0 || was.pending == 0 {
		return nil
	}
	why := fmt.Sprintf("%s rolls and deletes each pod before it creates the next one. %s %s at the limit of pods (%s), "+
		"and %s %s for each slot that becomes free", strings.Join(rolling, ", "), reason.Count(len(full), "node"),
		agree(len(full), "is", "are"), reason.Some(full, 3), reason.Count(was.pending, "pending pod"),
		agree(was.pending, "competes", "compete"))
	if slices.Contains(rolling, "kube-system/"+catalog.CNIContainer) {
		why += "; until aws-node runs again, no pod that starts there gets an address"
	}
	why += ". Free two slots on each first: scale down, or add nodes"
	return []Hazard{{HazardRestart, len(full), was.pending, why}}
}

// shutOut names the DaemonSets whose pods would stay Pending if they ended on a full node.
func shutOut(was, then *facts) []Hazard {
	full := was.full()
	var names []string
	for name, ds := range then.daemons {
		if !isCritical(ds.Spec.Template.Spec.PriorityClassName) {
			names = append(names, name)
		}
	}
	if len(full) == 0 || len(names) == 0 || was.pending == 0 {
		return nil
	}
	slices.Sort(names)
	return []Hazard{{HazardShutOut, len(full), len(full) * len(names), fmt.Sprintf("pods of %s have no critical "+
		"priority: one that ends on a node at its limit of pods would stay Pending behind the pods that wait",
		reason.Some(names, 3))}}
}

// noRoomForRoll finds the node that leaves the most pods without slots or addresses elsewhere when it is drained.
func noRoomForRoll(was, then *facts) []Hazard {
	worst, short := "", 0
	for i := range was.nodes {
		n := &was.nodes[i]
		if then.takesThen(n) == was.takesThen(n) {
			continue
		}
		room := 0
		for k := range was.nodes {
			if o := &was.nodes[k]; k != i && !o.control {
				room += max(was.roomOf(o), 0)
			}
		}
		if lack := n.pods - n.host - room; lack > short {
			worst, short = n.name, lack
		}
	}
	if short == 0 {
		return nil
	}
	return []Hazard{{HazardRoll, 1, short, fmt.Sprintf("if %s is drained before its replacement is ready, %s of it %s no "+
		"place: the other nodes have too few slots and addresses. Nodeless launches the replacement first and drains then; "+
		"a node group without surge needs another node first", worst, reason.Count(short, "pod"),
		agree(short, "has", "have"))}}
}

// blocked names the nodes that are not replaced as long as a pod of theirs must not be evicted.
func blocked(was, then *facts) []Hazard {
	pods := 0
	var nodes []string
	for i := range then.nodes {
		n := &then.nodes[i]
		if n.blocked == 0 || then.takesThen(n) == was.takesThen(n) {
			continue
		}
		pods += n.blocked
		nodes = append(nodes, n.name+": "+n.blockedBy)
	}
	if len(nodes) == 0 {
		return nil
	}
	return []Hazard{{HazardBlocked, len(nodes), pods, fmt.Sprintf("%s to be replaced %s the old limit of pods as long as "+
		"%s there must not be evicted (%s)", reason.Count(len(nodes), "node"), agree(len(nodes), "keeps", "keep"),
		reason.Count(pods, "pod"), reason.Some(nodes, 3))}}
}

// mixedNodes says which nodes keep their limit of pods although it changes for others of their type.
func mixedNodes(was, then *facts) []Hazard {
	changed, limits := map[string]bool{}, map[int]bool{} // types, new limits
	for i := range was.nodes {
		if n := &was.nodes[i]; then.takesThen(n) != was.takesThen(n) {
			changed[n.typ] = true
			limits[then.takesThen(n)] = true
		}
	}
	var keep, control []string
	for i := range was.nodes {
		n := &was.nodes[i]
		if !n.managed && changed[n.typ] && !limits[n.takes] {
			keep = append(keep, n.name)
		}
		if n.control {
			control = append(control, n.name)
		}
	}
	var out []Hazard
	if n := len(keep); n > 0 {
		out = append(out, Hazard{HazardMixed, n, 0, fmt.Sprintf("Nodeless does not manage %s of the same types (%s): %s the "+
			"old limit of pods until somebody replaces %s", reason.Count(n, "node"), reason.Some(keep, 3),
			agree(n, "it keeps", "they keep"), agree(n, "it", "them"))})
	}
	if len(control) == 1 && slices.Contains(keep, control[0]) {
		out = append(out, Hazard{HazardControl, 1, 0, control[0] + " is the only control-plane node: there is no API " +
			"server while it is replaced"})
	}
	return out
}

// reservedGrows says how much memory pods lose, by pool and type.
func reservedGrows(was, then *facts) []Hazard {
	nodes := map[[2]string]int{} // by pool and type
	for i := range was.nodes {
		if n := &was.nodes[i]; n.managed {
			nodes[[2]string{n.pool, n.typ}]++
		}
	}
	var out []Hazard
	for at, count := range nodes {
		a, b := was.types[at[0]][at[1]], then.types[at[0]][at[1]]
		if a == nil || b == nil || b.Allocatable[model.Memory] >= a.Allocatable[model.Memory] ||
			a.Capacity[model.Pods] == b.Capacity[model.Pods] {
			continue
		}
		lost := a.Allocatable[model.Memory] - b.Allocatable[model.Memory]
		out = append(out, Hazard{HazardReserved, count, 0, fmt.Sprintf("each of %s of %s reserves %s more memory for "+
			"Kubernetes and has %s left for pods: the kubelet reserves 11Mi for each pod that it may take (%d before, %d then)",
			reason.Count(count, "node"), at[1], model.Quantity("memory", lost),
			model.Quantity("memory", b.Allocatable[model.Memory]), a.Capacity[model.Pods], b.Capacity[model.Pods])})
	}
	slices.SortFunc(out, func(a, b Hazard) int { return cmp.Compare(a.Why, b.Why) })
	return out
}

// agree returns the word form that agrees with the number n.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}
