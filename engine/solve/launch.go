package solve

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// launch turns the planned nodes into launches and assigns the pods to them, most important first.
func (p *problem) launch() {
	next := map[*group]int{}
	for _, n := range p.nodes {
		var pods []int
		for _, a := range n.assignments {
			from := next[a.group]
			pods = append(pods, a.group.pods[from:from+a.n]...)
			next[a.group] = from + a.n
		}
		slices.Sort(pods)
		keys := make([]model.PodKey, len(pods))
		for i, pod := range pods {
			keys[i] = p.s.Pending[pod].PodKey
		}
		p.plan.Launches = append(p.plan.Launches, p.builder.launchOf(n, keys))
		p.plan.EffectivePrice += n.price
	}
	for _, g := range p.groups {
		g.pods = g.pods[next[g]:]
	}
	p.plan.LowerBound = p.bound
}

// template is what launches of one pattern have in common.
type template struct {
	made     bool
	launch   model.Launch // without ID and Pods
	identity []byte       // of launch
}

func (b *nodeBuilder) launchOf(n *plannedNode, pods []model.PodKey) model.Launch {
	if !n.template.made {
		*n.template = template{made: true, launch: b.launchWithoutPods(n)}
		n.template.identity = identityOf(&n.template.launch)
	}
	l := n.template.launch
	l.Pods = pods
	l.ID = digest(n.template.identity, l.Pods)
	return l
}

func (b *nodeBuilder) launchWithoutPods(n *plannedNode) model.Launch {
	v := b.views[n.view]
	l := model.Launch{
		Pool:         v.Pool.Name,
		Requirements: b.requirements(n),
		Requests:     n.load.Plus(v.Overhead[n.typ]),
		Chosen:       n.chosen,
		RunnerUp:     n.runnerUp,
		Relaxed:      v.Relaxed(n.types, n.OfferSet),
	}
	rules.Relax(l.Requirements, l.Relaxed)
	for _, t := range n.types {
		l.Types = append(l.Types, v.Pool.Types[t].Name)
	}
	return l
}

// identityOf returns everything that identifies a launch apart from its pods.
func identityOf(l *model.Launch) []byte {
	return fmt.Appendf(nil, "%q %q %q %v\n", l.Pool, l.Requirements.String(), l.Types, l.Requests)
}

// digest returns the ID of a launch: equal launches of the same pods are the same launch.
func digest(identity []byte, pods []model.PodKey) string {
	text := slices.Clip(identity)
	for _, k := range pods {
		for _, part := range []string{k.Namespace, k.Name, k.UID} {
			text = append(strconv.AppendQuote(text, part), ' ')
		}
		text[len(text)-1] = '\n'
	}
	return model.Digest(text)
}

// requirements returns the requirements of the NodeClaim: those of pool and pods with one value for each custom label
// that a pod requires and no type has, and the types, zones and capacity types that are possible.
func (b *nodeBuilder) requirements(n *plannedNode) model.Requirements {
	v := b.views[n.view]
	out := v.Requirements.And(n.wants).And(n.custom).Without(model.NodeNameField) // a field, not a label
	for i, r := range out {
		if _, custom := n.custom.Get(r.Key); custom {
			out[i] = oneValue(v, r)
		}
	}
	types := []string{}
	for _, t := range n.types {
		types = append(types, v.Pool.Types[t].Name)
	}
	return out.And(possibleOfferings(v, n.types, types, func(f rules.Offer) bool {
		return f.Available && n.Has(&f)
	}))
}

// possibleOfferings returns requirements for the types, and for the zones and capacity types of their offerings that
// are open.
func possibleOfferings(
	v *rules.View, types []int, names []string, open func(rules.Offer) bool,
) model.Requirements {
	zones, capacity := []string{}, []string{}
	for _, t := range types {
		for _, f := range v.Offers[t] {
			if open(f) {
				zones, capacity = append(zones, v.Zones[f.Zone]), append(capacity, v.Capacities[f.Capacity])
			}
		}
	}
	return model.NewRequirements(model.OneOf(model.LabelInstanceType, names...),
		model.OneOf(model.LabelZone, zones...), model.OneOf(model.LabelCapacityType, capacity...))
}

// oneValue narrows a label that a pod requires to one value, since a node has only one: the first listed value; if any
// value will do, the bound or an invented one. Of a label that types have, the launch chooses the value.
func oneValue(v *rules.View, r model.Requirement) model.Requirement {
	switch {
	case v.OfTypes(r.Key):
	case !r.Complement && len(r.Values) > 1:
		r.Values = r.Values[:1]
	case r.Complement && !r.AllowsAbsence():
		for i := range int64(len(r.Values) + 1) {
			value := "any-" + strconv.FormatInt(i, 10)
			switch {
			case r.Gte != nil:
				value = strconv.FormatInt(*r.Gte+i, 10)
			case r.Lte != nil:
				value = strconv.FormatInt(*r.Lte-i, 10)
			}
			if r.Has(value) {
				return model.Requirement{Key: r.Key, Values: []string{value}, MinValues: r.MinValues}
			}
		}
	}
	return r
}
