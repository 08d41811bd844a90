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
	pending  int   // shape
	nodes    []int // index in the snapshot of each node of the case
}

// translate is what controller/cluster and controller/translate make of the case. The objects arrive in any order.
func translate(c *Case, order *rand.Rand) *claim {
	var objects []client.Object
	objects = add(objects, c.Namespaces)
	objects = add(objects, c.Nodes)
	objects = add(objects, c.Pods)
	objects = add(objects, c.Claims)
	objects = add(objects, c.Volumes)
	objects = add(objects, c.Classes)
	objects = add(objects, c.CSINodes)
	objects = append(objects, c.Pod)
	order.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	w := cluster.New(cluster.Options{})
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

// stayed is the snapshot with the pods of nodes that go where they are: we plan their next places and count them
// there, while the scheduler counts them where they are until they end.
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

// judged is what engine/check says of a plan that puts the pod onto the node, "" if it has nothing against it.
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

// way is how the pods come to their nodes in the rules' state: it makes no difference.
type way int

const (
	there    way = iota // they are there from the beginning
	bound               // they are bound one by one
	asked               // the same, and the question was asked before
	returned            // pods came and went again
	joined              // the nodes joined one by one
	ways
)

// state is the rules' state of the case.
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

// of are the plugins that a rule speaks for.
var of = map[model.Rule][]string{
	model.RuleTaint:        {names.NodeUnschedulable, names.TaintToleration},
	model.RuleRequirement:  {names.NodeName, names.NodeAffinity},
	model.RuleResource:     {names.NodeResourcesFit},
	model.RuleHostPort:     {names.NodePorts},
	model.RuleVolume:       {names.VolumeBinding, names.VolumeZone},
	model.RuleVolumeLimit:  {names.NodeVolumeLimits},
	model.RuleVolumeInUse:  {names.VolumeRestrictions},
	model.RuleBlocked:      {names.VolumeBinding, names.VolumeZone, names.VolumeRestrictions, names.NodeVolumeLimits},
	model.RuleSpread:       {names.PodTopologySpread},
	model.RuleAffinity:     {names.InterPodAffinity},
	model.RuleAntiAffinity: {names.InterPodAffinity},
	model.RuleUnmodelled:   {names.NodeAffinity}, // terms that cannot be read match no node
}

// disagreement is what is wrong with a rule in the light of the truth, "" if nothing is.
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
