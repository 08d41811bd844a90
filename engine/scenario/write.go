package scenario

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Cluster writes a snapshot and a policy as a scenario, which Scenario reads as an equal one: equal in all but the keys of
// shapes and what depends on them, their order.
func Format(s *model.Snapshot, policy model.Policy) string {
	w := writer{s: s, namesOf: map[int]string{}, again: map[string]int{}}
	if !s.Now.Equal(Now) {
		w.line(declare("now", s.Now.UTC().Format(time.RFC3339Nano)))
	}
	for _, name := range s.ResourceNames[min(len(s.ResourceNames), len(model.WellKnownResources)):] {
		w.line(declare("resource", quote(name)))
	}
	for _, n := range s.Namespaces {
		d := declare("namespace", quote(n.Name))
		d.group("labels", labelItems(n.Labels))
		w.line(d)
	}
	w.findTypes()
	for i := range w.types {
		w.line(w.typeLine(&w.types[i]))
	}
	for i := range s.Pools {
		w.line(w.poolLine(&s.Pools[i]))
	}
	for i := range s.Daemons {
		w.line(w.daemonLine(&s.Daemons[i]))
	}
	w.pods()
	for i := range s.Nodes {
		w.line(w.nodeLine(&s.Nodes[i]))
	}
	if d := w.policyLine(policy); len(d.parts) > 1 {
		w.line(d)
	}
	return w.out.String()
}

type writer struct {
	s       *model.Snapshot
	out     strings.Builder
	types   []declaredType
	namesOf map[int]string // by shape
	again   map[string]int // how often a shape's name was taken
}

func (w *writer) line(d *declaration) { w.out.WriteString(d.String()) }

// findTypes collects the types of all pools. A name that means different types is declared for the pools it is for.
func (w *writer) findTypes() {
	first := map[string]int{}
	for i := range w.s.Pools {
		pool := &w.s.Pools[i]
		for _, t := range pool.Types {
			at, known := first[t.Name]
			switch {
			case !known:
				first[t.Name] = len(w.types)
				w.types = append(w.types, declaredType{InstanceType: t})
			case !sameType(&w.types[at].InstanceType, &t):
				w.types = append(w.types, declaredType{InstanceType: t, only: []string{pool.Name}})
			}
		}
	}
}

// sameType looks at the content, unless both share it.
func sameType(a, b *model.InstanceType) bool {
	if len(a.Offerings) > 0 && len(b.Offerings) > 0 && &a.Offerings[0] == &b.Offerings[0] && a.Allocatable == b.Allocatable {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func (w *writer) parser() *parser { return &parser{s: w.s, types: w.types} }

func (w *writer) typeLine(t *declaredType) *declaration {
	d := declare("type", quote(t.Name))
	d.parts = append(d.parts, w.differing(t.Capacity, model.Resources{})...)
	d.group("allocatable", w.differing(t.Allocatable, t.Capacity))
	rest, own := without(t.Requirements, model.OneOf(model.LabelInstanceType, t.Name))
	d.word("bare", !own)
	d.group("labels", nodeLabels(rest))
	d.group("offers", mapped(t.Offerings, func(o model.Offering) string {
		item := quote(o.Zone) + " " + quote(o.CapacityType) + " " + dollars(o.Price)
		switch {
		case !o.Available && !o.RetryAt.IsZero():
			item += " out=" + o.RetryAt.Sub(w.s.Now).String()
		case !o.Available:
			item += " out"
		}
		return item
	}))
	d.group("attach", mapped(t.AttachLimits, attachItem))
	d.group("only", quoteAll(t.only))
	return d
}

// without is the requirements less an own one that goes without saying, and whether it is there.
func without(rs model.Requirements, own model.Requirement) (model.Requirements, bool) {
	r, ok := rs.Get(own.Key)
	if !ok || !reflect.DeepEqual(r, own) {
		return rs, false
	}
	var rest model.Requirements
	for _, r := range rs {
		if r.Key != own.Key {
			rest = append(rest, r)
		}
	}
	return rest, true
}

func (w *writer) poolLine(p *model.Pool) *declaration {
	d := declare("pool", quote(p.Name))
	d.number("weight", int64(p.Weight))
	rest, own := without(p.Requirements, model.OneOf(model.LabelPool, p.Name))
	d.word("bare", !own)
	d.group("require", nodeLabels(rest))
	d.group("taint", mapped(p.Taints, taintItem))
	d.group("startup-taint", mapped(p.StartupTaints, taintItem))
	var limit []string
	for i, set := range p.Limits.Set {
		if set {
			name := resourceName(w.s.ResourceNames, i)
			limit = append(limit, name+"="+exactly(name, p.Limits.Max[i]))
		}
	}
	if p.Limits.NodesSet {
		limit = append(limit, fmt.Sprintf("nodes=%d", p.Limits.Nodes))
	}
	d.group("limit", limit)
	usage := w.differing(p.Usage, model.Resources{})
	if p.NodeCount != 0 {
		usage = append(usage, fmt.Sprintf("nodes=%d", p.NodeCount))
	}
	d.group("usage", usage)
	if all, _ := w.parser().typesOf(&line{used: map[string]bool{}}, p.Name); len(all) != len(p.Types) {
		names := joined(mapped(p.Types, func(t model.InstanceType) string { return quote(t.Name) }))
		d.parts = append(d.parts, "types("+names+")")
	}
	if p.Static {
		d.word(fmt.Sprintf("replicas=%d", p.Replicas), true)
	}
	d.sentence("not-ready", p.NotReady)
	d.group("disrupt", disruptItems(&p.Disruption))
	d.group("wish", w.wishItems(&p.Disruption))
	return d
}

func disruptItems(p *model.DisruptionPolicy) []string {
	d := declare()
	if p.ConsolidateAfter != 0 {
		d.word("after="+p.ConsolidateAfter.String(), true)
	}
	d.word("never", p.Never)
	d.word("when-empty", p.WhenEmptyOnly)
	d.word("balanced", p.Balanced)
	d.number("empty", int64(p.AllowedEmpty))
	d.number("drifted", int64(p.AllowedDrifted))
	d.number("underused", int64(p.AllowedUnderused))
	return d.parts
}

func (w *writer) policyLine(p model.Policy) *declaration {
	d := declare("policy")
	d.number("max-types", int64(p.MaxTypes))
	d.number("max-steps", int64(p.MaxSteps))
	d.word("solver=first-fit", p.Solver == model.FirstFit)
	d.word("preferences=respect", p.Preferences == model.Respect)
	d.word("preferences=ignore", p.Preferences == model.Ignore)
	d.word("min-values=best-effort", p.MinValues == model.BestEffort)
	d.amount("preference-price", dollars(p.PreferencePrice), "0")
	d.amount("node-fee", dollars(p.NodeFee), "0")
	d.amount("move-price", dollars(p.MovePrice), "0")
	d.number("spot-risk", int64(p.SpotRisk))
	d.word("spot-to-spot", p.SpotToSpot)
	d.number("max-what-ifs", int64(p.MaxWhatIfs))
	d.amount("after", p.After.Underutilized, "")
	d.amount("after-drifted", p.After.Drifted, "")
	d.group("largest", w.differing(p.Largest, model.Resources{}))
	d.group("performance", mapped(p.Performance, func(f model.Performance) string {
		return fmt.Sprintf("%s=%d", quote(f.Family), f.Percent)
	}))
	if p.HasPriorityCutoff {
		d.word(fmt.Sprintf("cutoff=%d", p.PriorityCutoff), true)
	}
	return d
}
