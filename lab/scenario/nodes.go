package scenario

import (
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
		text("drifted", &n.Drifted), number("unaddressed", &n.Unaddressed),
	}
}

func (p *parser) addNode(l *line) {
	n := model.Node{Name: l.name(), State: model.Initialized, Created: p.s.Now.Add(-time.Hour)}
	p.once(l, "node", n.Name)
	l.fields(2, append(placeFields(&n), lifeFields(p.s.Now, &n)...)...)
	if !l.has("unmanaged") && n.Pool != "" {
		n.Claim = "claim-" + n.Name
	}
	if claim, ok := l.value("claim"); ok {
		n.Claim = claim
	}
	n.Taints, n.AttachLimits, n.MissingDaemons = l.taints("taint"), l.attachLimits(), p.missingDaemons(l)
	n.DaemonPorts = l.ports("daemon-ports")
	p.size(l, &n)
	p.occupy(l, &n)
	p.s.Nodes = append(p.s.Nodes, n)
}

// missingDaemons reads namespace/name=duration for each DaemonSet whose pod still waits for the node.
func (p *parser) missingDaemons(l *line) (out []model.MissingDaemon) {
	for _, item := range lists(l.group("lacks")) {
		name, text, _ := cut(item, "=")
		since, err := before(p.s.Now, text)
		if err != nil {
			l.failf("lacks(%s): want namespace/name=how long: %w", item, err)
		}
		out = append(out, model.MissingDaemon{DaemonSet: leaf(name), Since: since})
	}
	return out
}

// size sets the node's resources and labels: first those of its type, zone, capacity type and pool, then those on the
// line.
func (p *parser) size(l *line, n *model.Node) {
	if !l.has("bare") {
		var t *model.InstanceType
		if n.Type != "" {
			t = p.typeFor(n.Type, n.Pool)
		}
		inherit(n, t)
	}
	n.Labels = n.Labels.And(l.requirements(lists(l.group("labels"))))
	before := n.Capacity
	n.Capacity = p.amounts(l, before)
	for i := range n.Capacity {
		if n.Capacity[i] != before[i] {
			n.Allocatable[i] = n.Capacity[i]
		}
	}
	n.Allocatable = p.override(l, n.Allocatable, "allocatable", lists(l.group("allocatable")))
}

// inherit sets what a node inherits from its type (if known), its zone and capacity type, and its pool.
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

// occupy adds pods to the node. The node's usage is given on the line or, by default, the sum of the requests of its
// pods with a shape.
func (p *parser) occupy(l *line, n *model.Node) {
	for _, item := range lists(l.group("runs")) {
		pod := p.bound(l, item, n.Name)
		p.once(l, "pod", pod.Namespace+"/"+pod.Name+" on "+n.Name)
		if pod.Shape >= 0 && !pod.Terminal {
			n.Used = n.Used.Plus(p.s.Shapes[pod.Shape].Requests)
		}
		n.Pods = append(n.Pods, pod)
	}
	if used := l.group("used"); len(used) > 0 {
		n.Used = p.override(l, model.Resources{}, "used", lists(used))
	}
}
