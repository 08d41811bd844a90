package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
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
		ago("age", now, &n.Created, time.Hour.String()),
		ago("ready", now, &n.Initialized, none),
		ago("event", now, &n.LastPodEvent, none),
		ago("drifted-for", now, &n.DriftedSince, none),
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

func (w *writer) nodeLine(n *model.Node) *declaration {
	d := declare("node", quote(n.Name)).fields(placeFields(n)...)
	w.claim(d, n)
	w.size(d, n)
	d.group("taint", mapped(n.Taints, taintItem))
	d.fields(lifeFields(w.s.Now, n)...)
	d.group("lacks", mapped(n.MissingDaemons, func(m model.MissingDaemon) string {
		return quote(m.DaemonSet) + "=" + age(w.s.Now, m.Since)
	}))
	d.group("runs", mapped(n.Pods, func(b model.BoundPod) string { return w.boundItem(&b, n.Name) }))
	return d
}

func (w *writer) claim(d *declaration, n *model.Node) {
	usual := ""
	if n.Pool != "" {
		usual = "claim-" + n.Name
	}
	if n.Claim == "" && usual != "" {
		d.word("unmanaged", true)
		return
	}
	if n.Claim != usual {
		d.word("claim="+quote(n.Claim), true)
	}
}

// size writes what differs from what the node inherits. If it inherits something that it does not have, it is bare.
func (w *writer) size(d *declaration, n *model.Node) {
	base := model.Node{
		Name: n.Name, Pool: n.Pool, Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType,
		State: n.State, AttachLimits: n.AttachLimits,
	}
	var t *model.InstanceType
	if n.Type != "" {
		t = w.parser().typeFor(n.Type, n.Pool)
	}
	inherit(&base, t)
	var more model.Requirements
	for _, r := range n.Labels {
		if other, ok := base.Labels.Get(r.Key); !ok || !reflect.DeepEqual(r, other) {
			more = append(more, r)
		}
	}
	both := base.Labels.And(more)
	if len(base.AttachLimits) != len(n.AttachLimits) || both.String() != n.Labels.String() || !sameLength(both, n.Labels) {
		d.word("bare", true)
		base, more = model.Node{}, n.Labels
	}
	d.group("labels", nodeLabels(more))
	d.parts = append(d.parts, w.differing(n.Capacity, base.Capacity)...)
	for i := range n.Capacity {
		if n.Capacity[i] != base.Capacity[i] {
			base.Allocatable[i] = n.Capacity[i]
		}
	}
	d.group("allocatable", w.differing(n.Allocatable, base.Allocatable))
	var used model.Resources
	for _, b := range n.Pods {
		if b.Shape >= 0 && !b.Terminal {
			used = used.Plus(w.s.Shapes[b.Shape].Requests)
		}
	}
	if n.Used != used {
		d.parts = append(d.parts, "used("+strings.Join(w.differing(n.Used, model.Resources{}), ", ")+")")
	}
	if len(base.AttachLimits) == 0 || t == nil || !reflect.DeepEqual(t.AttachLimits, n.AttachLimits) {
		d.group("attach", mapped(n.AttachLimits, attachItem))
	}
}

// sameLength reports whether both have the same keys and equal values for each.
func sameLength(a, b model.Requirements) bool {
	return slices.EqualFunc(a, b, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values) && x.MinValues == y.MinValues
	})
}

func (w *writer) boundItem(b *model.BoundPod, node string) string {
	d := declare(w.podName(b.PodKey, b.Shape))
	if b.Shape >= 0 {
		d.word("as "+quoteName(w.namesOf[b.Shape]), true)
	}
	return strings.Join(d.fields(boundFields(w.s.Now, b, node)...).parts, " ")
}

// podName returns the pod's name, qualified by its namespace unless that is the default.
func (w *writer) podName(k model.PodKey, shape int) string {
	if k.Namespace == (&parser{s: w.s}).namespaceOf(shape) {
		return quoteName(k.Name)
	}
	return fmt.Sprintf("%s/%s", quoteName(k.Namespace), quoteName(k.Name))
}
