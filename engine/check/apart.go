package check

import "github.com/nodeless/nodeless/engine/model"

// apartRule is an anti-affinity term of some pods. It is judged in the end state: it holds in both directions, and
// more pods never make it easier to satisfy.
type apartRule struct {
	term    *model.PodTerm
	owners  []bool // by shape
	matches []bool // by shape
}

// apart: no two pods share a domain if one repels the other, unless both ran before.
func (j *coexistence) apart() {
	var rules []*apartRule
	known := map[string]*apartRule{}
	present, _ := j.present()
	for i := range j.s.Shapes {
		if !present[i] {
			continue
		}
		for k := range j.s.Shapes[i].AntiAffinity {
			t := &j.s.Shapes[i].AntiAffinity[k]
			text := t.Topology + " " + selectorText(&t.Pods)
			r := known[text]
			if r == nil {
				r = &apartRule{term: t, owners: make([]bool, len(j.s.Shapes)), matches: j.chosenBy(&t.Pods)}
				known[text] = r
				rules = append(rules, r)
			}
			r.owners[i] = true
		}
	}
	for _, r := range rules {
		j.apartBy(r)
	}
}

// crowd counts the pods of a domain that match a rule.
type crowd struct {
	all, planned int
	who          model.PodKey // one of them, a planned one if there are any
}

func (j *coexistence) apartBy(r *apartRule) {
	p := j.placesBy(r.term.Topology)
	crowds := make([]crowd, len(p.names))
	j.each(func(at int, _ *host, l *load) {
		if !r.matches[l.shape] {
			return
		}
		for _, d := range p.at[at].domains() {
			c := &crowds[d]
			if c.all == 0 || l.planned && c.planned == 0 {
				c.who = l.first
			}
			c.all += l.n
			if l.planned {
				c.planned += l.n
			}
		}
	})
	j.each(func(at int, m *host, l *load) {
		if !r.owners[l.shape] {
			return
		}
		for _, d := range p.at[at].domains() {
			others := crowds[d].planned
			if l.planned {
				others = crowds[d].all
				if r.matches[l.shape] {
					others--
				}
			}
			if others > 0 && l.planned && p.at[at].open() {
				j.fail("domain open", podName(l.first),
					"keeps away from pods by %s, but which one %s will have is open; in %s there are %d others",
					r.term.Topology, m.name, p.names[d], others)
				return
			}
			if others > 0 {
				j.fail("pod anti-affinity", podName(l.first),
					"on %s keeps away from pods with %s, but in %s %s there are %d others, such as %s",
					m.name, r.term.Pods.Labels.String(), r.term.Topology, p.names[d], others, podName(crowds[d].who))
			}
		}
	})
}

// domains returns the host's domain or, if that is open, those it may be in.
func (p place) domains() []int {
	if p.in >= 0 {
		return []int{p.in}
	}
	return p.oneOf
}
