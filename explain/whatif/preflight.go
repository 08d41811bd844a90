package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Kinds of Hazards.
const (
	HazardAddresses = "PodsWithoutAddress"  // more pods than addresses on a node
	HazardRestart   = "DaemonSetRestart"    // a DaemonSet's pod has to compete for its slot
	HazardShutOut   = "DaemonSetShutOut"    // a DaemonSet without a critical priority on a full node
	HazardRoll      = "NoRoomForRoll"       // the other nodes have no room for the pods of one
	HazardStuck     = "CriticalPodsPending" // critical pods that are Pending already
	HazardMixed     = "MixedNodes"          // nodes that keep their limit of pods
	HazardPrefixes  = "PrefixesOfSubnets"   // prefixes that subnets have to give
	HazardReserved  = "KubeReservedGrows"   // memory that pods lose
	HazardControl   = "SingleControlPlane"  // no API server while the one control-plane node is replaced
)

// Priority classes of pods that preempt all others.
const (
	critical        = "system-node-critical"
	criticalCluster = "system-cluster-critical"
)

// Hazard is what a change of the limit of pods or of the VPC CNI would do before it is complete, in numbers.
type Hazard struct {
	Kind  string `json:"kind"`
	Nodes int    `json:"nodes,omitempty"`
	Pods  int    `json:"pods,omitempty"`
	Why   string `json:"why"`
}

// facts are what the hazards of a change follow from, before it or after.
type facts struct {
	nodes    []nodeFacts // by name
	pending  int         // pods that wait and belong to no DaemonSet
	critical []string    // those of a critical priority class
	daemons  map[string]*appsv1.DaemonSet
	cni      catalog.CNI
	types    map[string]map[string]*model.InstanceType // by pool and name
}

// nodeFacts is a node with its pods.
type nodeFacts struct {
	name, pool, typ string
	managed         bool
	control         bool // a control-plane node
	takes           int  // pods, by its kubelet
	pods, host      int  // that are bound; of them on the host network
}

// facts returns those of a run that has not begun.
func (r *run) facts() facts {
	f := facts{daemons: maps.Clone(r.daemons), cni: catalog.CNI{}, types: map[string]map[string]*model.InstanceType{}}
	s := r.cluster.Snapshot()
	for i := range s.Pools {
		byName := map[string]*model.InstanceType{}
		for k := range s.Pools[i].Types {
			byName[s.Pools[i].Types[k].Name] = &s.Pools[i].Types[k]
		}
		f.types[s.Pools[i].Name] = byName
	}
	at := map[string]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if o := r.nodes[n.Name]; o != nil {
			_, control := o.Labels["node-role.kubernetes.io/control-plane"]
			at[n.Name] = len(f.nodes)
			f.nodes = append(f.nodes, nodeFacts{
				name: n.Name, pool: n.Pool, typ: cmp.Or(n.Type, o.Labels[model.LabelInstanceType]), managed: n.Claim != "",
				control: control, takes: int(n.Allocatable[model.Pods]),
			})
		}
	}
	for _, p := range r.pods {
		f.count(p, at)
	}
	slices.Sort(f.critical)
	if ds := f.daemons["kube-system/"+catalog.CNIContainer]; ds != nil {
		f.cni = cniOf(ds)
	}
	return f
}

func (f *facts) count(p *corev1.Pod, at map[string]int) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	i, bound := at[p.Spec.NodeName]
	switch {
	case bound:
		f.nodes[i].pods++
		if p.Spec.HostNetwork {
			f.nodes[i].host++
		}
	case p.Spec.NodeName == "" && !slices.ContainsFunc(p.OwnerReferences, isDaemonSet):
		f.pending++
		if isCritical(p.Spec.PriorityClassName) {
			f.critical = append(f.critical, p.Namespace+"/"+p.Name)
		}
	}
}

func isCritical(class string) bool { return class == critical || class == criticalCluster }

func cniOf(ds *appsv1.DaemonSet) catalog.CNI {
	env := map[string]string{}
	for i := range ds.Spec.Template.Spec.Containers {
		if c := &ds.Spec.Template.Spec.Containers[i]; c.Name == catalog.CNIContainer {
			for _, v := range c.Env {
				env[v.Name] = v.Value
			}
		}
	}
	c, _ := catalog.ReadCNI(env)
	return c
}

// takesThen returns how many pods the node's kubelet, or that of the node that replaces it, takes after the change.
func (f *facts) takesThen(n *nodeFacts) int {
	if t := f.types[n.pool][n.typ]; n.managed && t != nil {
		return int(t.Capacity[model.Pods])
	}
	return n.takes
}

// hazards compares what was with what the change makes of it. There are none unless the change is about the limit of
// pods or about a DaemonSet.
func hazards(was, then facts) []Hazard {
	var out []Hazard
	limits := slices.ContainsFunc(was.nodes, func(n nodeFacts) bool { return then.takesThen(&n) != was.takesThen(&n) })
	rolling := rollingDaemons(was, then)
	if limits || was.cni != then.cni {
		out = slices.Concat(out, withoutAddress(was, then), prefixesNeeded(was, then))
	}
	if limits {
		out = slices.Concat(out, noRoomForRoll(was, then), mixedNodes(was, then), reservedGrows(was, then))
	}
	if len(rolling) > 0 {
		out = slices.Concat(out, restarts(was, rolling), shutOut(was, then))
	}
	if len(out) > 0 && len(was.critical) > 0 {
		out = append(out, Hazard{Kind: HazardStuck, Pods: len(was.critical), Why: fmt.Sprintf(
			"%s of critical priority %s Pending already (%s): tools that wait for them to run, such as kops "+
				"rolling-update, "+
				"do not get past the first node", reason.Count(len(was.critical), "pod"), agree(len(was.critical), "is", "are"),
			reason.Some(was.critical, 3))})
	}
	return out
}

// withoutAddress says how many pods of a node would have no address, by what nodes have in common.
func withoutAddress(was, then facts) []Hazard {
	type sort struct {
		pool, typ              string
		takes, host, now, next int
	}
	nodes := map[sort]int{}
	for i := range was.nodes {
		n := &was.nodes[i]
		t, ok := catalog.Lookup(n.typ)
		if !ok {
			continue
		}
		s := sort{n.pool, n.typ, then.takesThen(n), n.host, was.cni.PodAddresses(t), then.cni.PodAddresses(t)}
		if s.takes-s.host > s.now || s.takes-s.host > s.next {
			nodes[s]++
		}
	}
	var out []Hazard
	for s, n := range nodes {
		hang := max(s.takes-s.host-s.now, s.takes-s.host-s.next)
		why := fmt.Sprintf("%s of %s would take %s each, %d of them on the host network, and has addresses "+
			"for %d under the CNI "+
			"settings of now", reason.Count(n, "node"), s.typ, reason.Count(s.takes, "pod"), s.host, s.now)
		if s.takes-s.host > s.next {
			why += fmt.Sprintf(" and for %d under the new ones: up to %s of each node would stay ContainerCreating "+
				"(failed to assign an IP address to container)", s.next, reason.Count(hang, "pod"))
		} else {
			why += fmt.Sprintf(": up to %s of each node would stay ContainerCreating (failed to assign an IP "+
				"address to "+
				"container) where its kubelet changes before its aws-node. Change the DaemonSet first and wait "+
				"until it has "+
				"rolled; then the limit of pods", reason.Count(hang, "pod"))
		}
		out = append(out, Hazard{HazardAddresses, n, n * hang, why})
	}
	slices.SortFunc(out, func(a, b Hazard) int { return cmp.Compare(a.Why, b.Why) })
	return out
}

// prefixesNeeded says how many /28 blocks the nodes' pods of now need.
func prefixesNeeded(was, then facts) []Hazard {
	if !then.cni.PrefixDelegation || was.cni.PrefixDelegation {
		return nil
	}
	prefixes, nodes := 0, 0
	var xen []string
	for i := range was.nodes {
		n := &was.nodes[i]
		t, ok := catalog.Lookup(n.typ)
		switch {
		case !ok:
		case !then.cni.Prefixes(t):
			xen = append(xen, n.name)
		default:
			nodes++
			prefixes += then.cni.Holding(t, n.pods-n.host, then.takesThen(n)).Prefixes
		}
	}
	var out []Hazard
	if prefixes > 0 {
		out = append(out, Hazard{HazardPrefixes, nodes, 0, fmt.Sprintf("the pods of now take %s, each of 16 "+
			"contiguous addresses, "+
			"%d in all. EC2 does not say whether a subnet has them: one whose single addresses are scattered may "+
			"have none. A "+
			"subnet CIDR reservation of type prefix keeps them", fmt.Sprintf("%d /28 %s", prefixes, agree(prefixes, "prefix", "prefixes")), 16*prefixes)})
	}
	if len(xen) > 0 {
		out = append(out, Hazard{HazardPrefixes, len(xen), 0, fmt.Sprintf("%s %s no prefixes (%s): the type "+
			"is not built on "+
			"nitro", reason.Count(len(xen), "node"), agree(len(xen), "gets", "get"), reason.Some(xen, 3))})
	}
	return out
}

// rollingDaemons returns the DaemonSets whose pods are replaced, deleted first, by name.
func rollingDaemons(was, then facts) []string {
	var out []string
	for name, ds := range was.daemons {
		next := then.daemons[name]
		if next == nil || fingerprint(ds) == fingerprint(next) {
			continue
		}
		if u := next.Spec.UpdateStrategy; u.RollingUpdate == nil || u.RollingUpdate.MaxSurge == nil ||
			strings.Trim(u.RollingUpdate.MaxSurge.String(), "0%") == "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// full returns the nodes at their limit of pods.
func (f *facts) full() []string {
	var out []string
	for i := range f.nodes {
		if n := &f.nodes[i]; n.takes > 0 && n.pods >= n.takes {
			out = append(out, n.name)
		}
	}
	return out
}

// restarts says on how many nodes the pod of a rolling DaemonSet competes with pods that wait.
func restarts(was facts, rolling []string) []Hazard {
	full := was.full()
	if len(full) == 0 || was.pending == 0 {
		return nil
	}
	why := fmt.Sprintf("%s rolls and deletes each pod before it creates the next one. %s %s at the limit "+
		"of pods (%s), and "+
		"%s %s for each slot that becomes free", strings.Join(rolling, ", "), reason.Count(len(full), "node"),
		agree(len(full), "is", "are"), reason.Some(full, 3), reason.Count(was.pending, "pending pod"),
		agree(was.pending, "competes", "compete"))
	if slices.Contains(rolling, "kube-system/"+catalog.CNIContainer) {
		why += "; until aws-node runs again, no pod that starts there gets an address"
	}
	return []Hazard{{HazardRestart, len(full), was.pending, why + ". Free two slots on each first: scale " +
		"down, or add nodes"}}
}

// shutOut names the DaemonSets whose pods would not come back on full nodes.
func shutOut(was, then facts) []Hazard {
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
	return []Hazard{{HazardShutOut, len(full), len(full) * len(names), fmt.Sprintf("pods of %s have no "+
		"critical priority: one that "+
		"ends on a node at its limit of pods would stay Pending behind the pods that wait", reason.Some(names, 3))}}
}

// noRoomForRoll replays the replacement node by node: do the others have slots and addresses for the pods of one?
func noRoomForRoll(was, then facts) []Hazard {
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
	return []Hazard{{HazardRoll, 1, short, fmt.Sprintf("if %s is drained before its replacement is ready, "+
		"%s of it have no place: the "+
		"other nodes have too few slots and addresses. Nodeless replaces first and drains then; a node group "+
		"without "+
		"surge needs another node first", worst, reason.Count(short, "pod"))}}
}

// roomOf returns for how many more pods a node has slots and addresses.
func (f *facts) roomOf(n *nodeFacts) int {
	room := n.takes - n.pods
	if t, ok := catalog.Lookup(n.typ); ok {
		room = min(room, f.cni.PodAddresses(t)-(n.pods-n.host))
	}
	return room
}

// mixedNodes says which nodes keep their limit of pods although the change is about their kind.
func mixedNodes(was, then facts) []Hazard {
	changed, limits := map[string]bool{}, map[int]bool{} // by type
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
	if len(keep) > 0 {
		out = append(out, Hazard{HazardMixed, len(keep), 0, fmt.Sprintf("%s of the same types (%s) Nodeless "+
			"does not manage: "+
			"they keep their limit of pods until somebody replaces them", reason.Count(len(keep), "node"), reason.Some(keep, 3))})
	}
	if len(control) == 1 && len(keep) > 0 {
		out = append(out, Hazard{HazardControl, 1, 0, fmt.Sprintf("%s is the only control-plane node: there "+
			"is no API server while "+
			"it is replaced", control[0])})
	}
	return out
}

// reservedGrows says how much memory pods lose, by type.
func reservedGrows(was, then facts) []Hazard {
	nodes := map[[2]string]int{}
	for i := range was.nodes {
		if n := &was.nodes[i]; n.managed {
			nodes[[2]string{n.pool, n.typ}]++
		}
	}
	var out []Hazard
	for at, count := range nodes {
		a, b := was.types[at[0]][at[1]], then.types[at[0]][at[1]]
		if a == nil || b == nil || b.Allocatable[model.Memory] >= a.Allocatable[model.Memory] {
			continue
		}
		lost := a.Allocatable[model.Memory] - b.Allocatable[model.Memory]
		out = append(out, Hazard{HazardReserved, count, 0, fmt.Sprintf("each of %s of %s reserves %s more "+
			"memory for Kubernetes "+
			"and has %s left for pods: the kubelet reserves 11Mi for each pod that it may take (%d before, %d then)",
			reason.Count(count, "node"), at[1], model.Quantity("memory", lost),
			model.Quantity("memory", b.Allocatable[model.Memory]), a.Capacity[model.Pods], b.Capacity[model.Pods])})
	}
	slices.SortFunc(out, func(a, b Hazard) int { return cmp.Compare(a.Why, b.Why) })
	return out
}

// agree returns the verb that goes with a number of things.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

func isDaemonSet(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }
