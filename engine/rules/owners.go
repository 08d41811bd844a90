package rules

import "github.com/nodeless/nodeless/engine/model"

// owners are the pods with anti-affinity terms, which repel the pods that match. A term is counted once a shape that
// it matches or that has it is examined.
type owners struct {
	*counters
	terms   []ownedTerm
	of      [][]int // by shape: its terms
	byShape [][]int // by shape: the counters of those of its terms that are counted
}

// ownedTerm is a term and the shapes that have it.
type ownedTerm struct {
	*model.PodTerm
	shapes  []int
	counted bool
}

func newOwners(cs *counters) *owners {
	s := cs.s
	o := &owners{counters: cs, of: make([][]int, len(s.Shapes)), byShape: make([][]int, len(s.Shapes))}
	var text []byte
	index := map[string]int{}
	for i := range s.Shapes {
		terms := s.Shapes[i].AntiAffinity
		for t := range terms {
			text = append(append(text[:0], terms[t].Topology...), 0)
			text = selectorText(text, &terms[t].Pods)
			known, ok := index[string(text)]
			if !ok {
				known = len(o.terms)
				index[string(text)] = known
				o.terms = append(o.terms, ownedTerm{PodTerm: &terms[t]})
			}
			o.terms[known].shapes = append(o.terms[known].shapes, i)
			o.of[i] = append(o.of[i], known)
		}
	}
	return o
}

// meet counts the terms that match the shape.
func (o *owners) meet(s *model.Shape) {
	for i := range o.terms {
		if t := &o.terms[i]; !t.counted && o.pods.chooses(&t.Pods, s) {
			o.countOwners(t)
		}
	}
}

// own counts all terms that the shape has.
func (o *owners) own(shape int) {
	for _, i := range o.of[shape] {
		if t := &o.terms[i]; !t.counted {
			o.countOwners(t)
		}
	}
}

// countOwners creates the counter of pods with the term, and registers it with the pods that the term matches.
func (o *owners) countOwners(t *ownedTerm) {
	t.counted = true
	key := counterKey{pods: o.pods.selector(&t.Pods), topology: o.Topology(t.Topology), owners: true}
	c := o.counterFor(key)
	for _, id := range o.pods.matched[key.pods] {
		o.pods.against[id] = append(o.pods.against[id], int32(c))
	}
	o.pods.gather()
	for _, shape := range t.shapes {
		o.byShape[shape] = append(o.byShape[shape], c)
		o.countAll(c, shape, true)
	}
}
