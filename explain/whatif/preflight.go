package whatif

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// facts are what the hazards of a change are derived from, before or after it.
type facts struct {
	nodes    []nodeFacts // by name
	pending  int         // pending pods that belong to no DaemonSet
	critical []string    // those with a critical priority class
	daemons  map[string]*appsv1.DaemonSet
	cni      *catalog.CNI                              // nil if the addresses of nodes are unknown
	types    map[string]map[string]*model.InstanceType // by pool and name
}

// nodeFacts is a node with its pods.
type nodeFacts struct {
	name, pool, typ string
	managed         bool
	control         bool // a control-plane node
	windows         bool // aws-node gives its pods no addresses
	takes           int  // pods that its kubelet accepts
	pods, host      int  // bound pods; those on the host network
	// blocked is the number of pods that must not be evicted, unless the node's terminationGracePeriod overrides that;
	// blockedBy names the first of them, by name, and why.
	blocked   int
	blockedBy string
}

// facts returns the facts of a run that has not started.
func (r *run) facts() facts {
	f := facts{daemons: maps.Clone(r.daemons), types: map[string]map[string]*model.InstanceType{}}
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
			facts := nodeFacts{
				name: n.Name, pool: n.Pool, typ: cmp.Or(n.Type, o.Labels[model.LabelInstanceType]), managed: n.Claim != "",
				control: control, windows: o.Labels[model.LabelOS] == string(corev1.Windows),
				takes: int(n.Allocatable[model.Pods]),
			}
			facts.block(n)
			f.nodes = append(f.nodes, facts)
		}
	}
	for _, p := range r.pods {
		f.count(p, at)
	}
	slices.Sort(f.critical)
	for _, ds := range f.daemons {
		if c := translate.CNI(ds); c != nil {
			f.cni = c
		}
	}
	return f
}

// block counts the pods of a node that keep it from being replaced.
func (f *nodeFacts) block(n *model.Node) {
	for i := range n.Pods {
		p := &n.Pods[i]
		if n.Deadline || p.Daemon || !p.Protected() {
			continue
		}
		if f.blocked++; f.blocked == 1 {
			f.blockedBy = p.Namespace + "/" + p.Name + ", " +
				cmp.Or(p.EvictionBlocked, "which has the annotation karpenter.sh/do-not-disrupt")
		}
	}
}

// count adds a pod to its node or to the pending pods. at gives the index in f.nodes by node name.
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
	case p.Spec.NodeName == "" && translate.ReadPod(p).DaemonSet == "":
		f.pending++
		if isCritical(p.Spec.PriorityClassName) {
			f.critical = append(f.critical, p.Namespace+"/"+p.Name)
		}
	}
}

// isCritical reports whether pods of a priority class preempt all others.
func isCritical(class string) bool {
	return class == "system-node-critical" || class == "system-cluster-critical"
}

// takesThen returns how many pods the kubelet of the node, or of its replacement, accepts after the change.
func (f *facts) takesThen(n *nodeFacts) int {
	if t := f.types[n.pool][n.typ]; n.managed && t != nil {
		return int(t.Capacity[model.Pods])
	}
	return n.takes
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

// roomOf returns the number of further pods for which a node has slots and addresses.
func (f *facts) roomOf(n *nodeFacts) int {
	room := n.takes - n.pods
	if t, ok := catalog.Lookup(n.typ); ok && f.cni != nil {
		addresses := f.cni.PodAddresses(t)
		if n.windows {
			addresses = t.WindowsAddresses()
		}
		room = min(room, addresses-(n.pods-n.host))
	}
	return room
}

// rollingDaemons returns, by name, the DaemonSets that delete each pod before they create its replacement.
func rollingDaemons(was, then *facts) []string {
	var out []string
	for name, ds := range was.daemons {
		next := then.daemons[name]
		if next == nil || fingerprint(ds) == fingerprint(next) ||
			next.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
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
