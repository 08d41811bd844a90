package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addPool(l *line) (err error) {
	pool := model.Pool{Name: l.words[1], Weight: int32(l.number64("weight"))}
	rs, err := requirements(lists(l.group("require")))
	if err != nil {
		return err
	}
	pool.Requirements = rs.And(model.Requirements{model.OneOf(model.LabelPool, pool.Name)})
	if pool.Taints, err = taints(lists(l.group("taint"))); err != nil {
		return err
	}
	if pool.StartupTaints, err = taints(lists(l.group("startup-taint"))); err != nil {
		return err
	}
	if err := p.limits(&pool, lists(l.group("limit")), lists(l.group("usage"))); err != nil {
		return err
	}
	if pool.Types, err = p.typesOf(l); err != nil {
		return err
	}
	pool.NotReady = strings.Join(l.group("not-ready"), ", ")
	pool.Disruption, err = disruption(lists(l.group("disrupt")))
	p.s.Pools = append(p.s.Pools, pool)
	return err
}

func (p *parser) typesOf(l *line) ([]model.InstanceType, error) {
	if _, named := l.groups["types"]; !named {
		return slices.Clone(p.types), nil
	}
	var out []model.InstanceType
	for _, name := range lists(l.group("types")) {
		i := slices.IndexFunc(p.types, func(t model.InstanceType) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("types(%s): not declared", name)
		}
		out = append(out, p.types[i])
	}
	return out, nil
}

func (p *parser) limits(pool *model.Pool, limits, usage []string) error {
	var resources []string
	for _, item := range limits {
		name, text, _ := strings.Cut(item, "=")
		if name == "nodes" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("limit(%s): not a number", item)
			}
			pool.Limits.NodesSet, pool.Limits.Nodes = true, n
			continue
		}
		resources = append(resources, item)
		if i := slices.Index(p.s.ResourceNames, name); i >= 0 {
			pool.Limits.Set[i] = true
		}
	}
	var err error
	if pool.Limits.Most, err = p.override(model.Resources{}, resources); err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	resources = nil
	for _, item := range usage {
		if name, text, _ := strings.Cut(item, "="); name == "nodes" {
			if pool.NodeCount, err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("usage(%s): not a number", item)
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
		key, text, _ := strings.Cut(item, "=")
		switch key {
		case "never":
			d.Never = true
		case "after":
			d.ConsolidateAfter, err = time.ParseDuration(text)
		case "empty":
			d.AllowedEmpty, err = strconv.Atoi(text)
		case "drifted":
			d.AllowedDrifted, err = strconv.Atoi(text)
		default:
			err = fmt.Errorf("unknown field")
		}
		if err != nil {
			return d, fmt.Errorf("disrupt(%s): %w", item, err)
		}
	}
	return d, nil
}

func taints(items []string) ([]model.Taint, error) {
	var out []model.Taint
	for _, item := range items {
		t, err := taint(item)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

var states = map[string]model.NodeState{"in-flight": model.InFlight, "registered": model.Registered, "initialized": model.Initialized, "": model.Initialized}

func (p *parser) addNode(l *line) (err error) {
	n := model.Node{
		Name: l.words[1], Created: Now.Add(-time.Hour),
		Deleting: l.has("deleting"), Cordoned: l.has("cordoned"), DoNotDisrupt: l.has("do-not-disrupt"),
	}
	n.Pool, _ = l.value("pool")
	n.Type, _ = l.value("type")
	n.Zone, _ = l.value("zone")
	n.CapacityType, _ = l.value("capacity-type")
	n.Drifted, _ = l.value("drifted")
	if !l.has("unmanaged") && n.Pool != "" {
		n.Claim = "claim-" + n.Name
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
	if err := ages(l, &n); err != nil {
		return err
	}
	if n.Taints, err = taints(lists(l.group("taint"))); err != nil {
		return err
	}
	if err := p.dress(l, &n); err != nil {
		return err
	}
	for _, item := range lists(l.group("runs")) {
		n.Pods = append(n.Pods, bound(item, n.Name))
	}
	p.s.Nodes = append(p.s.Nodes, n)
	return nil
}

func ages(l *line, n *model.Node) error {
	for _, a := range []struct {
		key string
		to  *time.Time
	}{{"ready", &n.Initialized}, {"event", &n.LastPodEvent}} {
		text, ok := l.value(a.key)
		if !ok {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", a.key, text, err)
		}
		*a.to = Now.Add(-d)
	}
	return nil
}

// dress gives the node sizes and labels: those of its type, its place and its pool, then what the line says.
func (p *parser) dress(l *line, n *model.Node) (err error) {
	labels, err := requirements(lists(l.group("labels")))
	if err != nil {
		return err
	}
	n.Labels = labels
	if n.Capacity, err = p.amounts(l); err != nil {
		return err
	}
	n.Allocatable = n.Capacity
	i := slices.IndexFunc(p.types, func(t model.InstanceType) bool { return t.Name == n.Type })
	if i >= 0 {
		n.Capacity, n.Allocatable = p.types[i].Capacity, p.types[i].Allocatable
	}
	if n.State != model.InFlight {
		own := []model.Requirement{}
		for _, x := range []struct{ key, value string }{{model.LabelZone, n.Zone}, {model.LabelCapacityType, n.CapacityType}, {model.LabelPool, n.Pool}} {
			if x.value != "" {
				own = append(own, model.OneOf(x.key, x.value))
			}
		}
		if i >= 0 {
			own = append(own, p.types[i].Requirements...)
		}
		n.Labels = model.NewRequirements(own...).And(labels)
	}
	if n.Allocatable, err = p.override(n.Allocatable, lists(l.group("allocatable"))); err != nil {
		return err
	}
	n.Used, err = p.override(model.Resources{}, lists(l.group("used")))
	return err
}

func bound(item, node string) model.BoundPod {
	f := strings.Fields(item)
	b := model.BoundPod{Pod: model.Pod{PodKey: model.PodKey{Namespace: "default", Name: f[0], UID: "uid-" + f[0] + "-" + node}, Shape: -1}}
	b.Daemon, b.Terminal = slices.Contains(f, "daemon"), slices.Contains(f, "terminal")
	b.DoNotDisrupt = slices.Contains(f, "do-not-disrupt")
	return b
}
