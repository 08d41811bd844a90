package scenario

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
	if _, pool.Static = l.value("replicas"); pool.Static {
		if err := set(l, "replicas", &pool.Replicas); err != nil {
			return err
		}
	}
	pool.NotReady = sentence(l.group("not-ready"))
	if pool.Disruption, err = disruption(lists(l.group("disrupt"))); err != nil {
		return err
	}
	err = p.wishes(lists(l.group("wish")), &pool.Disruption)
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
	if pool.Limits.Max, err = p.override(model.Resources{}, resources); err != nil {
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
		case "balanced":
			d.Balanced = true
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
