package scenario

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// placeFields are the identity and location of a node.
func placeFields(n *model.Node) []field {
	return []field{
		text("pool", &n.Pool),
		text("type", &n.Type),
		text("zone", &n.Zone),
		text("capacity-type", &n.CapacityType),
		money("price", &n.Price),
		choice("state", &n.State, []string{"initialized", "registered", "in-flight"},
			[]model.NodeState{model.Initialized, model.Registered, model.InFlight}),
	}
}

// lifeFields are the history and state of a node.
func lifeFields(now time.Time, n *model.Node) []field {
	return []field{
		ago("age", now, &n.Created),
		ago("ready", now, &n.Initialized),
		ago("event", now, &n.LastPodEvent),
		ago("drifted-for", now, &n.DriftedSince),
		ahead("expires", now, &n.Expires),
		ahead("nominated", now, &n.NominatedUntil),
		text("command", &n.Command),
		word("deadline", &n.Deadline),
		word("deleting", &n.Deleting),
		word("cordoned", &n.Cordoned),
		word("do-not-disrupt", &n.DoNotDisrupt),
		text("drifted", &n.Drifted),
	}
}

func (p *parser) addNode(l *line) (err error) {
	n := model.Node{Name: l.name(), State: model.Initialized, Created: p.s.Now.Add(-time.Hour)}
	if err := p.once("node", n.Name); err != nil {
		return err
	}
	if err := l.fields(2, append(placeFields(&n), lifeFields(p.s.Now, &n)...)...); err != nil {
		return err
	}
	if !l.has("unmanaged") && n.Pool != "" {
		n.Claim = "claim-" + n.Name
	}
	if claim, ok := l.value("claim"); ok {
		n.Claim = claim
	}
	if n.Taints, err = taints(lists(l.group("taint"))); err != nil {
		return err
	}
	if n.MissingDaemons, err = p.missingDaemons(lists(l.group("lacks"))); err != nil {
		return err
	}
	if n.AttachLimits, err = attachLimits(lists(l.group("attach"))); err != nil {
		return err
	}
	if err := p.size(l, &n); err != nil {
		return err
	}
	if err := p.occupy(l, &n); err != nil {
		return err
	}
	p.s.Nodes = append(p.s.Nodes, n)
	return nil
}

// missingDaemons reads namespace/name=how long for each DaemonSet whose pod waits for the node.
func (p *parser) missingDaemons(items []string) ([]model.MissingDaemon, error) {
	var out []model.MissingDaemon
	for _, item := range items {
		name, text, _ := cut(item, "=")
		since, err := before(p.s.Now, text)
		if err != nil {
			return nil, fmt.Errorf("lacks(%s): want namespace/name=how long: %w", item, err)
		}
		out = append(out, model.MissingDaemon{DaemonSet: leaf(name), Since: since})
	}
	return out, nil
}

// size gives the node its resources and labels: those of its type, place and pool, then what the line says.
func (p *parser) size(l *line, n *model.Node) (err error) {
	if !l.has("bare") {
		var t *model.InstanceType
		if n.Type != "" {
			t = p.typeFor(n.Type, n.Pool)
		}
		inherit(n, t)
	}
	labels, err := requirements(lists(l.group("labels")))
	if err != nil {
		return err
	}
	n.Labels = n.Labels.And(labels)
	before := n.Capacity
	if n.Capacity, err = p.amounts(l, before); err != nil {
		return err
	}
	for i := range n.Capacity {
		if n.Capacity[i] != before[i] {
			n.Allocatable[i] = n.Capacity[i]
		}
	}
	n.Allocatable, err = p.override(n.Allocatable, lists(l.group("allocatable")))
	return err
}

// inherit gives a node what follows from its type, if that is known, its place and its pool.
func inherit(n *model.Node, t *model.InstanceType) {
	if t != nil {
		n.Capacity, n.Allocatable = t.Capacity, t.Allocatable
		if len(n.AttachLimits) == 0 {
			n.AttachLimits = t.AttachLimits
		}
	}
	if n.State == model.InFlight {
		return
	}
	if t != nil {
		n.Labels = t.Requirements
	}
	for _, x := range []struct{ key, value string }{{model.LabelZone, n.Zone}, {
		model.LabelCapacityType,
		n.CapacityType,
	}, {model.LabelPool, n.Pool}} {
		if x.value != "" {
			n.Labels = n.Labels.And(model.Requirements{model.OneOf(x.key, x.value)})
		}
	}
}

// occupy puts pods on the node. Its usage is what the line says or, by default, the requests of the pods with a
// shape.
func (p *parser) occupy(l *line, n *model.Node) (err error) {
	for _, item := range lists(l.group("runs")) {
		pod, err := p.bound(item, n.Name)
		if err != nil {
			return err
		}
		if err := p.once("pod", pod.Namespace+"/"+pod.Name+" on "+n.Name); err != nil {
			return err
		}
		if pod.Shape >= 0 && !pod.Terminal {
			n.Used = n.Used.Plus(p.s.Shapes[pod.Shape].Requests)
		}
		n.Pods = append(n.Pods, pod)
	}
	if used := l.group("used"); len(used) > 0 {
		n.Used, err = p.override(model.Resources{}, lists(used))
	}
	return err
}
