package check

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
)

func selectorText(s *model.Selector) string {
	return fmt.Sprintf("%q %v %q %v %q", s.Namespaces, s.InMatching, s.NamespaceLabels.String(), s.Nothing, s.Labels.String())
}

// chosenBy says of each shape whether the selector chooses its pods.
func (j *judge) chosenBy(sel *model.Selector) []bool {
	text := selectorText(sel)
	if out, ok := j.matching[text]; ok {
		return out
	}
	if j.namespaces == nil {
		j.namespaces = map[string][]model.Label{}
		for _, n := range j.s.Namespaces {
			j.namespaces[n.Name] = n.Labels
		}
	}
	out := make([]bool, len(j.s.Shapes))
	for i := range j.s.Shapes {
		s := &j.s.Shapes[i]
		out[i] = sel.Matches(s.Namespace, j.namespaces[s.Namespace], s.Labels)
	}
	j.matching[text] = out
	return out
}

// present are the shapes of which some pod is on a machine; planned those of which one is planned.
func (j *judge) present() (present, planned []bool) {
	present, planned = make([]bool, len(j.s.Shapes)), make([]bool, len(j.s.Shapes))
	j.each(func(_ int, _ *machine, l *load) {
		present[l.shape] = true
		planned[l.shape] = planned[l.shape] || l.planned
	})
	return present, planned
}
