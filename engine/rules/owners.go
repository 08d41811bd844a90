package rules

import "github.com/nodeless/nodeless/engine/model"

// owners are the pods with anti-affinity terms, which keep away those that match. They are counted by terms: those that
// match a shape that was looked at, and those that were asked for.
type owners struct {
	terms    []ownedTerm
	of       [][]int // by shape: its terms
	counters [][]int // by shape: of its terms, as far as they are counted
}

// ownedTerm is a term, and the shapes that have it.
type ownedTerm struct {
	*model.PodTerm
	shapes  []int
	counted bool
}

func (o *owners) init(s *model.Snapshot) {
	o.of, o.counters = make([][]int, len(s.Shapes)), make([][]int, len(s.Shapes))
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
}

// meet counts those who keep the shape away.
func (st *State) meet(s *model.Shape) {
	for i := range st.owners.terms {
		if t := &st.owners.terms[i]; !t.counted && st.pods.chooses(&t.Pods, s) {
			st.countOwners(t)
		}
	}
}

// own counts pods of the shape by all its terms.
func (st *State) own(shape int) {
	for _, i := range st.owners.of[shape] {
		if t := &st.owners.terms[i]; !t.counted {
			st.countOwners(t)
		}
	}
}

// countOwners counts pods that have the term, and makes those whom it matches look at it.
func (st *State) countOwners(t *ownedTerm) {
	t.counted = true
	key := counterKey{pods: st.pods.selector(&t.Pods), topology: st.topology(t.Topology), owners: true}
	c := st.counterFor(key)
	for _, id := range st.pods.matched[key.pods] {
		st.pods.against[id] = append(st.pods.against[id], int32(c))
	}
	st.gather()
	for _, shape := range t.shapes {
		st.owners.counters[shape] = append(st.owners.counters[shape], c)
		st.countAll(c, shape, true)
	}
}
