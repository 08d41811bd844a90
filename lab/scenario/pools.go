package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addPool(l *line) (err error) {
	pool := model.Pool{Name: l.name()}
	if err := p.once("pool", pool.Name); err != nil {
		return err
	}
	_, pool.Static = l.value("replicas")
	if err := l.fields(2, number("weight", &pool.Weight), number("replicas", &pool.Replicas)); err != nil {
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
	if err := p.limits(&pool, l); err != nil {
		return err
	}
	if pool.Types, err = p.typesOf(l, pool.Name); err != nil {
		return err
	}
	pool.NotReady = sentence(l.group("not-ready"))
	if err := readGroup(l, "disrupt", disruptionFields(&pool.Disruption)); err != nil {
		return err
	}
	p.s.Pools = append(p.s.Pools, pool)
	return readGroup(l, "annotations", annotationFields(p.s.Now, &p.s.Pools[len(p.s.Pools)-1].Disruption))
}

// limits reads the groups limit and usage, in which nodes is not a resource.
func (p *parser) limits(pool *model.Pool, l *line) (err error) {
	read := func(group string, resources *model.Resources, nodes *int64) (counted bool, err error) {
		items := lists(l.group(group))
		count := number("nodes", nodes)
		if i := slices.IndexFunc(items, func(item string) bool { return strings.HasPrefix(item, "nodes=") }); i >= 0 {
			if err := readItem(items[i], []field{count}); err != nil {
				return false, fmt.Errorf("%s: %w", group, err)
			}
			items, counted = slices.Delete(items, i, i+1), true
		}
		if *resources, err = p.override(model.Resources{}, items); err != nil {
			return false, fmt.Errorf("%s: %w", group, err)
		}
		for _, item := range items {
			if name, _, _ := cut(item, "="); group == "limit" {
				pool.Limits.Set[p.resource(name)] = true
			}
		}
		return counted, nil
	}
	if pool.Limits.NodesSet, err = read("limit", &pool.Limits.Max, &pool.Limits.Nodes); err != nil {
		return err
	}
	_, err = read("usage", &pool.Usage, &pool.NodeCount)
	return err
}

func disruptionFields(d *model.DisruptionPolicy) []field {
	return []field{
		duration("after", &d.ConsolidateAfter),
		word("never", &d.Never),
		word("when-empty", &d.WhenEmptyOnly),
		word("balanced", &d.Balanced),
		number("empty", &d.AllowedEmpty),
		number("drifted", &d.AllowedDrifted),
		number("underused", &d.AllowedUnderused),
	}
}

// annotationFields are the settings that a pool's owner makes with annotations.
func annotationFields(now time.Time, d *model.DisruptionPolicy) []field {
	return []field{
		windowField(&d.Window),
		word("open", &d.Window.Open),
		ahead("until", now, &d.Window.Until),
		text("unclear", &d.Unclear),
		money("saving", &d.MinSaving),
		number("saving-percent", &d.MinSavingPercent),
		duration("soft-expire", &d.SoftExpireAfter),
		word("replace-crowded", &d.ReplaceCrowded),
		word("wait-for-jobs", &d.WaitForJobs),
	}
}

// windowField is window=empty|drifted|underused: the methods that the window restricts.
func windowField(w *model.Window) field {
	methods := []field{word("empty", &w.Empty), word("drifted", &w.Drifted), word("underused", &w.Underused)}
	return field{name: "window", read: func(text string) error {
		for _, method := range strings.Split(text, "|") {
			if err := readItem(method, methods); err != nil {
				return fmt.Errorf("want empty, drifted or underused with | between them")
			}
		}
		return nil
	}}
}
