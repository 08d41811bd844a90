package check

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// counter counts the bound pods of some kind by domain.
type counter struct {
	topology string
	places   *places
	matches  []bool // by shape: counts its pods
	spread   bool   // ignores terminating pods
	here     []bool // by host: it is in a domain, and pods on it count
	domain   []bool // has a host that counts
	start    []int  // by domain: pods there before the plan
	counts   []int  // by domain, so far
	total    int
	domains  int // number of domains
	low      int // lowest count of a domain
	atLow    int // number of domains with it
}

// fill resets the counter for another attempt.
func (c *counter) fill() {
	c.counts = append(c.counts[:0], c.start...)
	c.total = 0
	for _, n := range c.counts {
		c.total += n
	}
	c.lowest()
}

func (c *counter) lowest() {
	c.low, c.atLow = 0, 0
	for d, n := range c.counts {
		switch {
		case !c.domain[d]:
		case c.atLow == 0 || n < c.low:
			c.low, c.atLow = n, 1
		case n == c.low:
			c.atLow++
		}
	}
}

// add counts n more pods on the host.
func (c *counter) add(at, n int) {
	if !c.here[at] {
		return
	}
	d := c.places.at[at].in
	was := c.counts[d]
	c.counts[d] += n
	c.total += n
	if c.domain[d] && was == c.low {
		if c.atLow--; c.atLow == 0 {
			c.lowest()
		}
	}
}

// least returns the global minimum as a spread sees it: 0 if there are too few domains.
func (c *counter) least(minDomains int32) int {
	if c.domains == 0 || c.domains < int(minDomains) {
		return 0
	}
	return c.low
}

// text formats the counts for people.
func (c *counter) text() string {
	out, more := "", 0
	for d, n := range c.counts {
		switch {
		case !c.domain[d]:
		case len(out) > 200:
			more++
		default:
			out += fmt.Sprintf(" %s:%d", c.places.names[d], n)
		}
	}
	if more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return "[" + out + " ]"
}

// counter finds or creates the counter. here is nil if every host in a domain counts.
func (o *order) counter(text, topology string, matches []bool, here func(at int) bool) *counter {
	if c := o.known[topology+" "+text]; c != nil {
		return c
	}
	p := o.j.placesBy(topology)
	c := &counter{
		topology: topology, places: p, matches: matches, spread: here != nil,
		here: make([]bool, len(o.j.hosts)), domain: make([]bool, len(p.names)), start: make([]int, len(p.names)),
	}
	for at := range o.j.hosts {
		if d := p.at[at].in; d >= 0 && (here == nil || here(at)) {
			c.here[at] = true
			if !c.domain[d] {
				c.domain[d] = true
				c.domains++
			}
		}
	}
	o.known[topology+" "+text] = c
	o.counters = append(o.counters, c)
	return c
}

// spreadCounter counts for a spread of the shape, on the hosts that its policies include.
func (o *order) spreadCounter(s *model.Shape, sp *model.Spread) *counter {
	var keys []string
	for i := range s.Spread {
		if s.Spread[i].Hard && !slices.Contains(keys, s.Spread[i].Topology) {
			keys = append(keys, s.Spread[i].Topology)
		}
	}
	slices.Sort(keys)
	text := fmt.Sprintf("spread %s %q", selectorText(&sp.Pods), keys)
	var suits []bool
	if !sp.AnyNode {
		suits = o.j.suitable(s)
		text += " " + affinityText(s)
	}
	if sp.Untainted {
		text += fmt.Sprintf(" %v", s.Tolerations)
	}
	matches := o.j.chosenBy(&sp.Pods)
	if everyPod(&sp.Pods) {
		matches = make([]bool, len(o.j.s.Shapes))
	}
	return o.counter(text, sp.Topology, matches, func(at int) bool {
		for _, key := range keys {
			if o.j.placesBy(key).at[at].in < 0 {
				return false
			}
		}
		if sp.Untainted {
			if _, bad := model.Untolerated(o.j.hosts[at].taints(), s.Tolerations); bad {
				return false
			}
		}
		return suits == nil || suits[at]
	})
}

// everyPod reports whether the label selector is empty: that of a spread counts no pods (kube-scheduler v1.36,
// countPodsMatchSelector), although it matches the pod itself.
func everyPod(s *model.Selector) bool { return !s.Nothing && len(s.Labels) == 0 }

func affinityText(s *model.Shape) string {
	text := s.Required.String()
	for _, t := range s.AnyOf {
		text += " | " + t.String()
	}
	return text
}

// suitable reports for each host whether its labels satisfy the shape's node affinity; nil if there is none.
func (j *coexistence) suitable(s *model.Shape) []bool {
	text := affinityText(s)
	if text == "" {
		return nil
	}
	out := j.suits[text]
	if out == nil {
		for _, m := range j.hosts {
			out = append(out, j.surelyOn(m, s))
		}
		j.suits[text] = out
	}
	return out
}
