package solve

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

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
		p.plan.EffectivePrice += m.counts
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

// identityOf is all that a launch is beside its pods: pool, requirements, types and requests as fmt's %q %q %q %v, which is slow at it.
func identityOf(l *model.Launch) []byte {
	text := append(strconv.AppendQuote(nil, l.Pool), ' ')
	text = append(strconv.AppendQuote(text, l.Requirements.String()), " ["...)
	for i, t := range l.Types {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendQuote(text, t)
	}
	text = append(text, "] ["...)
	for i, n := range l.Requests {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return append(text, "]\n"...)
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
	p.plan.Placements = sortedByPod(p.plan.Placements, func(x *model.Placement) *model.PodKey { return &x.Pod })
	p.plan.Unplaced = sortedByPod(p.plan.Unplaced, func(x *model.Unplaced) *model.PodKey { return &x.Pod })
	if !slices.IsSortedFunc(p.plan.Launches, byID) {
		slices.SortStableFunc(p.plan.Launches, byID)
	}
}

func byID(a, b model.Launch) int { return strings.Compare(a.ID, b.ID) }

// sortedByPod sorts stably. What is sorted is large: each is moved but once.
func sortedByPod[T any](all []T, of func(*T) *model.PodKey) []T {
	order := make([]podAt, len(all))
	for i := range all {
		order[i] = podAt{key: of(&all[i]), at: i}
	}
	if slices.IsSortedFunc(order, podAt.compare) {
		return all
	}
	setParts(order)
	slices.SortFunc(order, podAt.compare)
	out := make([]T, len(all))
	for i := range order {
		out[i] = all[order[i].at]
	}
	return out
}

// podAt is a pod's key and where it was.
type podAt struct {
	key  *model.PodKey
	part uint64 // of the name, where names differ: it decides alone more often than not
	at   int
}

// setParts takes the first bytes of the names in which they differ; where namespaces differ there are none.
func setParts(pods []podAt) {
	first := pods[0].key
	common := len(first.Name)
	for i := range pods {
		if pods[i].key.Namespace != first.Namespace {
			return
		}
		name := pods[i].key.Name
		common = min(common, len(name))
		for name[:common] != first.Name[:common] {
			common--
		}
	}
	for i := range pods {
		var part [8]byte
		copy(part[:], pods[i].key.Name[common:])
		pods[i].part = binary.BigEndian.Uint64(part[:])
	}
}

func (a podAt) compare(b podAt) int {
	if a.part != b.part {
		return cmp.Compare(a.part, b.part)
	}
	x, y := a.key, b.key
	switch {
	case x.Namespace != y.Namespace:
		return strings.Compare(x.Namespace, y.Namespace)
	case x.Name != y.Name:
		return strings.Compare(x.Name, y.Name)
	case x.UID != y.UID:
		return strings.Compare(x.UID, y.UID)
	}
	return a.at - b.at
}
