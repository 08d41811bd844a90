package codec

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addPool(l *line) (err error) {
	pool := model.Pool{Name: l.name()}
	if err := p.once("pool", pool.Name); err != nil {
		return err
	}
	if err := set(l, "weight", &pool.Weight); err != nil {
		return err
	}
	if pool.Requirements, err = requirements(lists(l.group("require"))); err != nil {
		return err
	}
	if !l.has("bare") {
		pool.Requirements = pool.Requirements.And(model.Requirements{model.OneOf(model.LabelPool, pool.Name)})
	}
	if pool.Taints, err = taints(lists(l.group("taint"))); err != nil {
		return err
	}
	if pool.StartupTaints, err = taints(lists(l.group("startup-taint"))); err != nil {
		return err
	}
	if err := p.limits(&pool, lists(l.group("limit")), lists(l.group("usage"))); err != nil {
		return err
	}
	if pool.Types, err = p.typesOf(l, pool.Name); err != nil {
		return err
	}
	pool.NotReady = sentence(l.group("not-ready"))
	pool.Disruption, err = disruption(lists(l.group("disrupt")))
	p.s.Pools = append(p.s.Pools, pool)
	return err
}

func (p *parser) limits(pool *model.Pool, limits, usage []string) error {
	var resources []string
	for _, item := range limits {
		name, text, _ := cut(item, "=")
		if name == "nodes" {
			n, err := whole[int64](text)
			if err != nil {
				return fmt.Errorf("limit(%s): %w", item, err)
			}
			pool.Limits.NodesSet, pool.Limits.Nodes = true, n
			continue
		}
		resources = append(resources, item)
		if i := p.resource(name); i >= 0 {
			pool.Limits.Set[i] = true
		}
	}
	var err error
	if pool.Limits.Most, err = p.override(model.Resources{}, resources); err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	resources = nil
	for _, item := range usage {
		if name, text, _ := cut(item, "="); name == "nodes" {
			if pool.NodeCount, err = whole[int64](text); err != nil {
				return fmt.Errorf("usage(%s): %w", item, err)
			}
			continue
		}
		resources = append(resources, item)
	}
	if pool.Usage, err = p.override(model.Resources{}, resources); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	return nil
}

func disruption(items []string) (d model.DisruptionPolicy, err error) {
	for _, item := range items {
		key, text, _ := cut(item, "=")
		switch key {
		case "never":
			d.Never = true
		case "when-empty":
			d.WhenEmptyOnly = true
		case "after":
			d.ConsolidateAfter, err = time.ParseDuration(text)
		case "empty":
			d.AllowedEmpty, err = whole[int](text)
		case "drifted":
			d.AllowedDrifted, err = whole[int](text)
		case "underused":
			d.AllowedUnderused, err = whole[int](text)
		default:
			err = fmt.Errorf("unknown field")
		}
		if err != nil {
			return d, fmt.Errorf("disrupt(%s): %w", item, err)
		}
	}
	return d, nil
}

var states = map[string]model.NodeState{
	"in-flight": model.InFlight, "registered": model.Registered, "initialized": model.Initialized, "": model.Initialized,
}

func (p *parser) addNode(l *line) (err error) {
	n := model.Node{
		Name: l.name(), Created: p.s.Now.Add(-time.Hour),
		Deleting: l.has("deleting"), Cordoned: l.has("cordoned"), DoNotDisrupt: l.has("do-not-disrupt"),
	}
	if err := p.once("node", n.Name); err != nil {
		return err
	}
	for _, f := range []struct {
		key string
		to  *string
	}{{"pool", &n.Pool}, {"type", &n.Type}, {"zone", &n.Zone}, {"capacity-type", &n.CapacityType}, {"drifted", &n.Drifted}} {
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
	}{{"age", &n.Created}, {"ready", &n.Initialized}, {"event", &n.LastPodEvent}} {
		if err := p.ago(l, f.key, f.to); err != nil {
			return err
		}
	}
	if n.Taints, err = taints(lists(l.group("taint"))); err != nil {
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
