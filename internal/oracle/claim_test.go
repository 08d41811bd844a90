package oracle

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/internal/kube"
)

// claim is the same case in the engine's terms.
type claim struct {
	snapshot *model.Snapshot
	pending  int   // shape
	nodes    []int // index in the snapshot of each node of the case
}

// objects lets the translator look up what volumes are about.
type objects struct{ c *Case }

func find[T any](list []T, is func(T) bool) T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	var none T
	return none
}

func (o objects) VolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return find(o.c.Claims, func(x *corev1.PersistentVolumeClaim) bool { return x.Name == name && x.Namespace == namespace })
}

func (o objects) Volume(name string) *corev1.PersistentVolume {
	return find(o.c.Volumes, func(x *corev1.PersistentVolume) bool { return x.Name == name })
}

func (o objects) Class(name string) *storagev1.StorageClass {
	return find(o.c.Classes, func(x *storagev1.StorageClass) bool { return x.Name == name })
}

func (o objects) DefaultClass() *storagev1.StorageClass { return nil }

// notYet are constraints that are translated and that the search does not decide yet; the rules' state does.
var notYet = []string{"podAffinity", "podAntiAffinity", "topologySpreadConstraints", "hostPort", "persistentVolumeClaim"}

// translate is what internal/kube makes of the case.
func translate(c *Case) *claim {
	table := kube.NewNames()
	shapeOf := map[*corev1.Pod]model.Shape{}
	byKey := map[string]model.Shape{}
	for _, p := range append(c.Pods[:len(c.Pods):len(c.Pods)], c.Pod) {
		s := table.Shape(p, objects{c})
		s.Unmodelled = slices.DeleteFunc(s.Unmodelled, func(u string) bool { return slices.Contains(notYet, u) })
		shapeOf[p], byKey[s.Key] = s, s
	}
	out := &claim{snapshot: &model.Snapshot{Now: noon}}
	s := out.snapshot
	for _, shape := range byKey {
		s.Shapes = append(s.Shapes, shape)
	}
	slices.SortFunc(s.Shapes, func(a, b model.Shape) int { return cmp.Compare(a.Key, b.Key) })
	index := func(p *corev1.Pod) int {
		return slices.IndexFunc(s.Shapes, func(x model.Shape) bool { return x.Key == shapeOf[p].Key })
	}
	out.pending = index(c.Pod)
	for _, ns := range c.Namespaces {
		s.Namespaces = append(s.Namespaces, kube.Namespace(ns))
	}
	slices.SortFunc(s.Namespaces, func(a, b model.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range c.Nodes {
		n := table.Node(node, nil)
		n.AttachLimits = kube.AttachLimits(find(c.CSINodes, func(x *storagev1.CSINode) bool { return x.Name == node.Name }))
		for _, p := range c.Pods {
			if p.Spec.NodeName != node.Name {
				continue
			}
			read := kube.ReadPod(p)
			bound := model.BoundPod{Pod: model.Pod{PodKey: read.Key, Shape: index(p)}, Terminal: read.Terminal, Leaving: read.Deleting}
			n.Pods = append(n.Pods, bound)
			if !read.Terminal {
				n.Used = n.Used.Plus(s.Shapes[bound.Shape].Requests)
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b model.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range c.Nodes {
		out.nodes = append(out.nodes, slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == node.Name }))
	}
	s.ResourceNames = table.List()
	return out
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
			if !p.Terminal && !p.Leaving {
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
