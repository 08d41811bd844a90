package firstfit

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Place gives up to n pods of the shape a place, one after the other.
func (p *Packer) Place(shape, n int) Result { return p.place(shape, n, true) }

// PlaceOnNodes is Place without planned machines: for pods that nothing is launched for.
func (p *Packer) PlaceOnNodes(shape, n int) Result { return p.place(shape, n, false) }

func (p *Packer) place(shape, n int, launch bool) Result {
	var out Result
	if shape < 0 || shape >= len(p.s.Shapes) {
		return Result{Left: n, Rule: model.RuleUnmodelled}
	}
	for out.Left = n; out.Left > 0; out.Left-- {
		node, machine, rule := p.one(shape, launch)
		if rule != "" {
			out.Rule = rule
			break
		}
		if node >= 0 {
			out.Nodes = addOn(out.Nodes, node)
		} else {
			out.Machines = addOn(out.Machines, machine)
		}
	}
	return out
}

func addOn(list []On, i int) []On {
	if last := len(list) - 1; last >= 0 && list[last].Index == i {
		list[last].N++
		return list
	}
	return append(list, On{i, 1})
}

// one places one pod: the node or the machine it went to, the other being -1, or a rule.
func (p *Packer) one(shape int, launch bool) (node, machine int, rule model.Rule) {
	if s := &p.s.Shapes[shape]; len(s.Unmodelled) > 0 {
		return -1, -1, model.RuleUnmodelled
	} else if s.Blocked != "" {
		return -1, -1, model.RuleBlocked
	}
	if p.usedAlone(shape) {
		return -1, -1, model.RuleVolumeInUse
	}
	if !launch {
		return p.through(shape, []func(*form) (int, int, model.Rule){p.toNode})
	}
	steps := []func(*form) (int, int, model.Rule){p.toNode, p.toMachine, p.toNew}
	if p.policy.Preferences != model.Priced {
		return p.through(shape, steps)
	}
	// What is priced is not worth a machine: wishes are kept among what is there.
	if node, machine, rule = p.through(shape, steps[:2]); rule == "" {
		return node, machine, rule
	}
	return p.through(shape, steps[2:])
}

// through tries the steps with all wishes, then with fewer and fewer.
func (p *Packer) through(shape int, steps []func(*form) (int, int, model.Rule)) (node, machine int, rule model.Rule) {
	for i := range p.chainOf(shape).steps {
		f := p.form(shape, i)
		p.prepare(f)
		for _, step := range steps {
			if node, machine, rule = step(f); rule == "" {
				return node, machine, ""
			}
		}
	}
	return -1, -1, rule
}

// toNode takes the first node that allows the form.
func (p *Packer) toNode(f *form) (int, int, model.Rule) {
	rule := model.RuleResource
	for i := next(f.nodes, 0); i >= 0; i = next(f.nodes, i+1) {
		node := p.nodes[i]
		if no := p.admits(f, node); no != "" {
			remove(f.nodes, i)
			continue
		}
		if no := p.onNode(f, node); no != "" {
			rule = no
			continue
		}
		p.bind(f.shape, node)
		return node, -1, ""
	}
	return -1, -1, rule
}

// admits is what the node alone says; a no is for good.
func (p *Packer) admits(f *form, node int) model.Rule {
	if rule := p.st.Admits(f.shape, node); rule != "" {
		return rule
	}
	n := p.st.Node(node)
	if len(n.Taints) > 0 && !f.softly(n.Taints) {
		return model.RuleTaint
	}
	if f.wants != nil && !slices.ContainsFunc(f.wants, func(w model.Requirements) bool { return p.st.Satisfies(node, w) }) {
		return model.RuleRequirement
	}
	return ""
}

func (p *Packer) bind(shape, node int) {
	p.st.Bind(shape, node)
	if len(p.st.PodCounters(shape)) > 0 || len(p.st.OwnerCounters(shape)) > 0 {
		p.version++
	}
}

// usedAlone reports whether a volume that only one pod may use has its pod.
func (p *Packer) usedAlone(shape int) bool {
	for i := range p.s.Shapes[shape].Volumes {
		if v := &p.s.Shapes[shape].Volumes[i]; p.alone[v.ID] && (p.inUse[v.ID] || p.st.InUse(shape)) {
			return true
		}
	}
	return false
}

// toMachine takes the planned machine with the fewest pods that can take one more.
func (p *Packer) toMachine(f *form) (int, int, model.Rule) {
	rule := model.RuleResource
	if f.dead {
		return -1, -1, p.blame(f)
	}
	for len(f.refused)*64 < len(p.machines) {
		f.refused = append(f.refused, 0)
	}
	for at, i := range p.order {
		if f.refused.Has(i) {
			continue
		}
		m := p.machines[i]
		options := f.pools[m.view]
		forGood := true
		for x := range options {
			o := &options[x]
			if !o.possible || cannot(m, f.chain.asks, o) {
				forGood = forGood && (len(f.all) == 0 || tooFull(m, f.chain.asks))
				continue
			}
			no, final := p.join(f, i, m, o)
			if no == "" {
				p.commit(f.shape, i, at)
				return -1, i, ""
			}
			forGood = forGood && final
			rule = no
		}
		if forGood {
			f.refused.Set(i)
		}
	}
	return -1, -1, rule
}

// toNew opens a machine of the first pool that can.
func (p *Packer) toNew(f *form) (int, int, model.Rule) {
	if f.failedAt == [2]int{p.version, len(p.machines)} {
		return -1, -1, f.rule
	}
	rule := model.RuleNoPool
	for view, pool := range p.pools {
		no := p.closed(f, view)
		for x := range f.pools[view] {
			if no != "" {
				break
			}
			o := &f.pools[view][x]
			if !o.possible {
				rule = nearer(rule, p.blame(f))
				continue
			}
			m := &machine{view: view, types: pool.allowed(&p.rooms[view]), zones: pool.zones, capacity: pool.capacity}
			fresh, _ := p.join(f, len(p.machines), m, o)
			if fresh == model.RuleMinValues && pool.v.BestEffort {
				m.relaxed = true
				fresh, _ = p.join(f, len(p.machines), m, o)
			}
			if fresh == "" {
				return -1, p.launch(f.shape, m), ""
			}
			rule = nearer(rule, fresh)
		}
		rule = nearer(rule, no)
	}
	f.failedAt, f.rule = [2]int{p.version, len(p.machines)}, rule
	return -1, -1, rule
}

// closed says why a pool has nothing for the form whatever is there, "" if it may.
func (p *Packer) closed(f *form, view int) model.Rule {
	pool := p.pools[view]
	switch {
	case pool.v.Pool.NotReady != "":
		return model.RulePoolNotReady
	case !f.tolerates(pool.v.Pool.Taints):
		return model.RuleTaint
	case len(f.pools[view]) == 0:
		return model.RuleRequirement
	case pool.allowed(&p.rooms[view]).Empty():
		return model.RuleLimit
	}
	return ""
}

// nearer is the rule that was met last on the way to a machine.
func nearer(a, b model.Rule) model.Rule {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func rank(r model.Rule) int {
	return slices.Index([]model.Rule{
		model.RuleNoPool, model.RulePoolNotReady, model.RuleTaint, model.RuleRequirement, model.RuleLimit, model.RuleResource,
		model.RuleVolumeLimit, model.RuleHostPort, model.RuleCapacity, model.RuleMinValues,
		model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread,
	}, r)
}
