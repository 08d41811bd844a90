package pack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// launch turns machines into launches and hands the pods out, most important first.
func (p *problem) launch() {
	next := map[*group]int{}
	for _, m := range p.machines {
		var pods []int
		for _, t := range m.takes {
			from := next[t.group]
			pods = append(pods, t.group.pods[from:from+t.n]...)
			next[t.group] = from + t.n
		}
		slices.Sort(pods)
		p.plan.Launches = append(p.plan.Launches, p.launchOf(m, pods))
	}
	for _, g := range p.groups {
		g.pods = g.pods[next[g]:]
	}
	p.plan.LowerBound = p.bound
	for _, m := range p.machines {
		p.plan.Counts += m.counts
	}
}

// template is what machines of one pattern have in common.
type template struct {
	made     bool
	launch   model.Launch // without ID and Pods
	identity []byte       // of it
}

func (p *problem) launchOf(m *machine, pods []int) model.Launch {
	if !m.template.made {
		*m.template = template{made: true, launch: p.withoutPods(m)}
		l := &m.template.launch
		m.template.identity = identityOf(l)
	}
	l := m.template.launch
	l.Pods = make([]model.PodKey, len(pods))
	for i, pod := range pods {
		l.Pods[i] = p.s.Pending[pod].PodKey
	}
	l.ID = digest(m.template.identity, l.Pods)
	return l
}

// identityOf is all that a launch is beside its pods.
func identityOf(l *model.Launch) []byte {
	return fmt.Appendf(nil, "%q %q %q %v\n", l.Pool, l.Requirements.String(), l.Types, l.Requests)
}

// digest is the ID of a launch: equal launches of the same pods are the same launch.
func digest(identity []byte, pods []model.PodKey) string {
	text := slices.Clip(identity)
	for _, k := range pods {
		for _, part := range []string{k.Namespace, k.Name, k.UID} {
			text = append(strconv.AppendQuote(text, part), ' ')
		}
		text[len(text)-1] = '\n'
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func (p *problem) withoutPods(m *machine) model.Launch {
	v := p.views[m.view]
	l := model.Launch{
		Pool:         v.Pool.Name,
		Requirements: p.requirements(m),
		Requests:     m.load.Plus(v.Overhead[m.typ]),
		Chosen:       m.chosen,
		RunnerUp:     m.runnerUp,
		Relaxed:      v.Relaxed(m.types, m.zones, m.capacity),
	}
	rules.Relax(l.Requirements, l.Relaxed)
	for _, t := range m.types {
		l.Types = append(l.Types, v.Pool.Types[t].Name)
	}
	return l
}

// requirements are those of the claim: pool and pods, one value for each custom label that a pod asks for, and the types,
// zones and capacity types that are possible.
func (p *problem) requirements(m *machine) model.Requirements {
	v := p.views[m.view]
	rs := v.Requirements.And(m.wants).And(m.custom)
	rs = slices.DeleteFunc(slices.Clone(rs), func(r model.Requirement) bool { return r.Key == model.NodeNameField }) // of no label
	out := slices.Clone(rs)
	for i, r := range out {
		if _, custom := m.custom.Get(r.Key); custom {
			out[i] = oneValue(r)
		}
	}
	types, zones, capacity := []string{}, []string{}, []string{}
	for _, t := range m.types {
		types = append(types, v.Pool.Types[t].Name)
		for _, f := range v.Offers[t] {
			if f.Available && m.zones[f.Zone] && m.capacity[f.Capacity] {
				zones = append(zones, v.Zones[f.Zone])
				capacity = append(capacity, v.Capacities[f.Capacity])
			}
		}
	}
	return out.And(model.NewRequirements(model.OneOf(model.LabelInstanceType, types...),
		model.OneOf(model.LabelZone, zones...), model.OneOf(model.LabelCapacityType, capacity...)))
}

// oneValue narrows a label that a pod asks for to one value, since a machine has but one: the first that is listed, or
// where any will do the smallest bound or an invented one.
func oneValue(r model.Requirement) model.Requirement {
	switch {
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

func candidateOf(v *rules.View, w way) model.Candidate {
	return model.Candidate{
		OfferingKey: model.OfferingKey{
			Type: v.Pool.Types[w.typ].Name, Zone: v.Zones[w.offer.Zone], CapacityType: v.Capacities[w.offer.Capacity],
		},
		Price: w.offer.Real,
	}
}

// sort puts the plan into its canonical order.
func (p *problem) sort() {
	byPod := func(a, b model.PodKey) int {
		if a.Namespace != b.Namespace {
			return cmp.Compare(a.Namespace, b.Namespace)
		}
		if a.Name != b.Name {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Compare(a.UID, b.UID)
	}
	p.plan.Placements = sorted(p.plan.Placements, func(a, b *model.Placement) int { return byPod(a.Pod, b.Pod) })
	p.plan.Launches = sorted(p.plan.Launches, func(a, b *model.Launch) int { return cmp.Compare(a.ID, b.ID) })
	p.plan.Unplaced = sorted(p.plan.Unplaced, func(a, b *model.Unplaced) int { return byPod(a.Pod, b.Pod) })
}

// sorted sorts stably. What is sorted is large: each is moved but once.
func sorted[T any](all []T, compare func(a, b *T) int) []T {
	order, before := make([]int32, len(all)), 0
	for i := range all {
		order[i] = int32(i)
		if i > 0 && compare(&all[i-1], &all[i]) > 0 {
			before++
		}
	}
	if before == 0 {
		return all
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Or(compare(&all[i], &all[j]), cmp.Compare(i, j)) })
	out := make([]T, len(all))
	for i, at := range order {
		out[i] = all[at]
	}
	return out
}
