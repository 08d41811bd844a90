package scenario

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

var states = map[string]model.NodeState{
	"in-flight": model.InFlight, "registered": model.Registered, "initialized": model.Initialized, "": model.Initialized,
}

func (p *parser) addNode(l *line) (err error) {
	n := model.Node{
		Name: l.name(), Created: p.s.Now.Add(-time.Hour),
		Deleting: l.has("deleting"), Cordoned: l.has("cordoned"), DoNotDisrupt: l.has("do-not-disrupt"), Deadline: l.has("deadline"),
	}
	if err := p.once("node", n.Name); err != nil {
		return err
	}
	for _, f := range []struct {
		key string
		to  *string
	}{{"pool", &n.Pool}, {"type", &n.Type}, {"zone", &n.Zone}, {"capacity-type", &n.CapacityType}, {"drifted", &n.Drifted}, {"command", &n.Command}} {
		*f.to, _ = l.value(f.key)
	}
	if !l.has("unmanaged") && n.Pool != "" {
		n.Claim = "claim-" + n.Name
	}
	if claim, ok := l.value("claim"); ok {
		n.Claim = claim
	}
	text, _ := l.value("state")
	state, ok := states[text]
	if !ok {
		return fmt.Errorf("state=%s: want in-flight, registered or initialized", text)
	}
	n.State = state
	if text, ok := l.value("price"); ok {
		if n.Price, err = price(text); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		key string
		to  *time.Time
	}{{"age", &n.Created}, {"ready", &n.Initialized}, {"event", &n.LastPodEvent}, {"drifted-for", &n.DriftedSince}} {
		if err := p.ago(l, f.key, f.to); err != nil {
			return err
		}
	}
	for key, to := range map[string]*time.Time{"expires": &n.Expires, "nominated": &n.NominatedUntil} { // order does not matter: each has its own place
		if err := p.ahead(l, key, to); err != nil {
			return err
		}
	}
	if n.Taints, err = taints(lists(l.group("taint"))); err != nil {
		return err
	}
	if n.MissingDaemons, err = p.lacks(lists(l.group("lacks"))); err != nil {
		return err
	}
	if n.AttachLimits, err = attachLimits(lists(l.group("attach"))); err != nil {
		return err
	}
	if err := p.dress(l, &n); err != nil {
		return err
	}
	if err := p.occupy(l, &n); err != nil {
		return err
	}
	p.s.Nodes = append(p.s.Nodes, n)
	return nil
}

// dress gives the node sizes and labels: those of its type, its place and its pool, then what the line says.
func (p *parser) dress(l *line, n *model.Node) (err error) {
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
	for _, x := range []struct{ key, value string }{{model.LabelZone, n.Zone}, {model.LabelCapacityType, n.CapacityType}, {model.LabelPool, n.Pool}} {
		if x.value != "" {
			n.Labels = n.Labels.And(model.Requirements{model.OneOf(x.key, x.value)})
		}
	}
}

// occupy puts the pods on the node. What they use is what the line says, or else the requests of those with a shape.
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
