package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// host is a node with its pods, or a launch.
type host struct {
	name    string
	node    *model.Node       // nil for a launch
	launch  *model.Launch     // nil for a node
	catalog *catalog          // of the launch
	options []*option         // of the launch
	labels  map[string]*label // of the launch, by key; filled on demand
	loads   []*load           // by shape; bound ones before planned ones
}

// label is the values that type and offering may give to a label of a launch.
type label struct {
	values []string
	absent bool // some offering has no value
}

// load is a number of pods of one shape on a host, either all bound or all planned.
type load struct {
	shape   int
	planned bool
	n       int
	leaving int // number of terminating ones
	first   model.PodKey
	left    int // not bound yet: see order.go
}

// coexistence judges what pods do to each other: those that run, those that are placed, and those that nodes are
// launched for.
type coexistence struct {
	*judge
	hosts      []*host
	places     map[string]*places       // by topology key
	matching   map[string][]bool        // by selector: the shapes that it selects
	suits      map[string][]bool        // by node affinity: the hosts that satisfy it
	namespaces map[string][]model.Label // by name
}

func newCoexistence(j *judge) *coexistence {
	c := &coexistence{
		judge: j, places: map[string]*places{}, matching: map[string][]bool{}, suits: map[string][]bool{},
		namespaces: map[string][]model.Label{},
	}
	for _, n := range j.s.Namespaces {
		c.namespaces[n.Name] = n.Labels
	}
	c.gather()
	return c
}

// all judges ports, volumes, anti-affinity, and the order of binding.
func (j *coexistence) all() {
	j.hostPorts()
	j.volumes()
	j.apart()
	before := len(j.found)
	if j.bindable(); len(j.found) > before && j.inTwoSteps() {
		j.found = j.found[:before]
	}
}

// inTwoSteps reports whether the pods can be bound if the placed ones are bound first: the scheduler binds them
// before the launched nodes, and so their domains, exist.
func (j *coexistence) inTwoSteps() bool {
	if len(j.plan.Placements) == 0 || len(j.plan.Launches) == 0 {
		return false
	}
	first := newCoexistence(newJudge(j.s, j.policy, &model.Plan{Placements: j.plan.Placements}))
	if first.bindable(); len(first.found) > 0 {
		return false
	}
	then := *j.s
	then.Nodes = slices.Clone(j.s.Nodes)
	at := map[string]int{}
	for i := range then.Nodes {
		then.Nodes[i].Pods = slices.Clone(then.Nodes[i].Pods)
		at[then.Nodes[i].Name] = i
	}
	for _, p := range j.plan.Placements {
		i, ok := at[p.Node]
		pod := j.pending[p.Pod]
		if !ok || pod == nil {
			return false
		}
		then.Nodes[i].Pods = append(then.Nodes[i].Pods, model.BoundPod{Pod: *pod})
	}
	second := newCoexistence(newJudge(&then, j.policy, &model.Plan{Launches: j.plan.Launches}))
	second.bindable()
	return len(second.found) == 0
}

// gather lists the hosts with the pods that are, or will be, on them.
func (j *coexistence) gather() {
	byName := map[string]*host{}
	for i := range j.s.Nodes {
		n := &j.s.Nodes[i]
		m := &host{name: "node " + n.Name, node: n}
		byName[n.Name] = m
		j.hosts = append(j.hosts, m)
		for k := range n.Pods {
			if p := &n.Pods[k]; !p.Terminal {
				if l := j.put(m, &p.Pod, false); l != nil && p.Terminating {
					l.leaving++
				}
			}
		}
	}
	for _, p := range j.plan.Placements {
		if m, pod := byName[p.Node], j.pending[p.Pod]; m != nil && pod != nil {
			j.put(m, pod, true)
		}
	}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		m := &host{name: "launch " + l.ID, launch: l, catalog: j.pools[l.Pool]}
		if m.catalog == nil {
			continue
		}
		j.hosts = append(j.hosts, m)
		m.options = slices.Concat(j.optionsOf(l)...)
		for _, k := range l.Pods {
			if pod := j.pending[k]; pod != nil {
				j.put(m, pod, true)
			}
		}
	}
}

// put counts one more pod, unless it cannot influence others.
func (j *coexistence) put(m *host, p *model.Pod, planned bool) *load {
	if j.shapeAt(p.Shape) == nil {
		return nil
	}
	i := slices.IndexFunc(m.loads, func(l *load) bool { return l.shape == p.Shape && l.planned == planned })
	if i < 0 {
		i = len(m.loads)
		m.loads = append(m.loads, &load{shape: p.Shape, planned: planned, first: p.PodKey})
	}
	m.loads[i].n++
	return m.loads[i]
}

// each calls f for all pods of the cluster and the plan.
func (j *coexistence) each(f func(at int, m *host, l *load)) {
	for at, m := range j.hosts {
		for _, l := range m.loads {
			f(at, m, l)
		}
	}
}

// surelyOn reports whether the host satisfies one of the alternatives, whatever it becomes.
func (j *coexistence) surelyOn(m *host, s *model.Shape) bool {
	if len(s.Required) == 0 && len(s.AnyOf) == 0 {
		return true
	}
	if m.node != nil {
		return slices.ContainsFunc(j.alternatives(s), func(wants model.Requirements) bool {
			return j.nodeSatisfies(m.node, wants)
		})
	}
	alternatives := j.alternatives(s)
	if slices.ContainsFunc(alternatives, m.surelyAll) {
		return true
	}
	custom := m.catalog.custom(m.launch.Requirements)
	return len(alternatives) > 1 && !slices.ContainsFunc(m.options, func(w *option) bool {
		return !slices.ContainsFunc(alternatives, func(wants model.Requirements) bool {
			return every(wants, w.labels, custom)
		})
	})
}

// surelyAll reports whether each offering of the launch satisfies each requirement.
func (h *host) surelyAll(wants model.Requirements) bool {
	for _, w := range wants {
		if w.Key == model.NodeNameField {
			if !anyName(w) {
				return false
			}
			continue
		}
		labels := h.label(w.Key)
		custom, ok := h.launch.Requirements.Get(w.Key)
		if h.catalog.decides(w.Key) {
			ok = false
		}
		if labels.absent && (ok && !custom.SubsetOf(w) || !ok && !w.AllowsAbsence()) ||
			slices.ContainsFunc(labels.values, func(v string) bool { return !w.Has(v) }) {
			return false
		}
	}
	return true
}

// label returns the values that type and offering give to a label of a launch.
func (h *host) label(key string) *label {
	if out := h.labels[key]; out != nil {
		return out
	}
	out := &label{}
	for _, w := range h.options {
		r, ok := w.labels.Get(key)
		out.absent = out.absent || !ok
		for _, v := range r.Values {
			if !slices.Contains(out.values, v) {
				out.values = append(out.values, v)
			}
		}
	}
	if h.labels == nil {
		h.labels = map[string]*label{}
	}
	h.labels[key] = out
	return out
}

func (h *host) taints() []model.Taint {
	if h.node != nil {
		return h.node.Taints
	}
	return h.catalog.pool.Taints
}
