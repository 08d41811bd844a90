package oracle

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// claim is the same case in the engine's terms.
type claim struct {
	snapshot *model.Snapshot
	pending  int   // the pod's shape
	nodes    []int // each node's index in the snapshot
}

// claimOf converts the case with controller/cluster and controller/translate. The objects arrive in random order.
func claimOf(c *Case, o cluster.Options, order *rand.Rand) *claim {
	var objects []client.Object
	objects = add(objects, c.Namespaces)
	objects = add(objects, c.Nodes)
	objects = add(objects, c.Pods)
	objects = add(objects, c.Claims)
	objects = add(objects, c.Volumes)
	objects = add(objects, c.Classes)
	objects = add(objects, c.CSINodes)
	objects = add(objects, c.CSIDrivers)
	objects = add(objects, c.Capacities)
	objects = add(objects, c.Services)
	objects = add(objects, c.DeviceClasses)
	objects = add(objects, c.Slices)
	objects = add(objects, c.ResourceClaims)
	objects = append(objects, c.Pod)
	order.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	w := cluster.New(o)
	for _, o := range objects {
		w.Update(o)
	}
	s := stayed(w.Snapshot())
	out := &claim{snapshot: s, pending: s.Pending[0].Shape}
	for _, node := range c.Nodes {
		out.nodes = append(out.nodes, slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == node.Name }))
	}
	return out
}

// stayed returns the snapshot with the pods of nodes being removed where they still run. The engine plans their next
// nodes and counts them there, while the scheduler counts them on their current node until they end.
func stayed(s *model.Snapshot) *model.Snapshot {
	out := *s
	out.Nodes, out.Pending = slices.Clone(s.Nodes), nil
	for _, p := range s.Pending {
		if p.From == "" {
			out.Pending = append(out.Pending, p)
			continue
		}
		i := slices.IndexFunc(out.Nodes, func(n model.Node) bool { return n.Name == p.From })
		p.From = ""
		out.Nodes[i].Pods = append(slices.Clone(out.Nodes[i].Pods), model.BoundPod{Pod: p})
	}
	for i := range out.Nodes {
		slices.SortFunc(out.Nodes[i].Pods, func(a, b model.BoundPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return &out
}

func add[T client.Object](objects []client.Object, more []T) []client.Object {
	for _, o := range more {
		objects = append(objects, o)
	}
	return objects
}

// judged returns what engine/check objects to in a plan that places the pod on the node, or "".
func (c *claim) judged(node int) string {
	plan := model.Plan{Placements: []model.Placement{{
		Pod:  c.snapshot.Pending[0].PodKey,
		Node: c.snapshot.Nodes[node].Name,
	}}}
	var out []string
	for _, v := range check.Plan(c.snapshot, model.Policy{}, plan) {
		out = append(out, v.Error())
	}
	return strings.Join(out, "; ")
}

// way is how the rules' state is built up, which must make no difference.
type way int

const (
	there    way = iota // the pods are on their nodes from the beginning
	bound               // the pods are bound one by one
	asked               // the same, with a query before
	returned            // pods are bound and unbound again
	joined              // the nodes are added one by one
	ways
)

// state returns the rules' state of the case.
func (c *claim) state(w way) *rules.State {
	if w == there {
		return rules.NewState(c.snapshot)
	}
	if w == returned {
		st := rules.NewState(c.snapshot)
		for i := range c.snapshot.Nodes {
			st.Bind(c.pending, i)
		}
		for i := range c.snapshot.Nodes {
			st.Unbind(c.pending, i)
		}
		return st
	}
	empty := *c.snapshot
	empty.Nodes = slices.Clone(empty.Nodes)
	late := make([][]int, len(empty.Nodes))
	for i := range empty.Nodes {
		n := &empty.Nodes[i]
		pods := n.Pods
		n.Pods = nil
		for _, p := range pods {
			if !p.Terminal && !p.Terminating {
				n.Used = n.Used.Minus(empty.Shapes[p.Shape].Requests)
				late[i] = append(late[i], p.Shape)
			} else {
				n.Pods = append(n.Pods, p)
			}
		}
	}
	nodes := empty.Nodes
	if w == joined {
		empty.Nodes = nil
	}
	st := rules.NewState(&empty)
	for i := range nodes {
		if w == joined {
			st.AddNode(nodes[i])
		}
		for _, shape := range late[i] {
			if w == asked {
				st.Allows(c.pending, i)
			}
			st.Bind(shape, i)
		}
	}
	return st
}

// of maps a rule to the plugins that it models.
var of = map[model.Rule][]string{
	model.RuleTaint:       {names.NodeUnschedulable, names.TaintToleration},
	model.RuleRequirement: {names.NodeName, names.NodeAffinity},
	model.RuleResource:    {names.NodeResourcesFit, names.DynamicResources},
	model.RuleHostPort:    {names.NodePorts},
	model.RuleVolume:      {names.VolumeBinding, names.VolumeZone, names.DynamicResources},
	model.RuleVolumeLimit: {names.NodeVolumeLimits},
	model.RuleVolumeInUse: {names.VolumeRestrictions},
	model.RuleBlocked: {
		names.VolumeBinding, names.VolumeZone, names.VolumeRestrictions, names.NodeVolumeLimits, names.DynamicResources,
	},
	model.RuleSpread:       {names.PodTopologySpread},
	model.RuleAffinity:     {names.InterPodAffinity},
	model.RuleAntiAffinity: {names.InterPodAffinity, names.VolumeRestrictions},
	model.RuleUnmodelled:   {names.NodeAffinity}, // invalid terms match no node
}

// disagreement describes what is wrong with a rule given the truth, "" if nothing is.
func disagreement(rule model.Rule, true judgement) string {
	switch {
	case rule == "" && true.allowed():
		return ""
	case rule == "":
		return fmt.Sprintf("the rules allow it; it is %s", true)
	case !slices.ContainsFunc(of[rule], func(plugin string) bool { return true.rejectedBy(plugin) != "" }):
		return fmt.Sprintf("the rules refuse it by %s; it is %s", rule, true)
	}
	return ""
}
