package rules

import (
	"testing"

	"github.com/nodeless/nodeless/lab/gen"
)

func TestAffinityIsTheSameByValueAndByNode(t *testing.T) {
	by := 0
	for seed := range uint64(2000) {
		s := gen.Constrained(seed)
		st := NewState(s)
		for i := range s.Shapes {
			class := &st.affinities[st.affinity(&s.Shapes[i])]
			class.judged, class.byValue = manyNodes, st.wantsOf(class.wants)
			if class.byValue == nil {
				continue
			}
			for node := range s.Nodes {
				want := false
				for _, rs := range class.wants {
					want = want || st.Satisfies(node, rs)
				}
				if got := st.judgeAffinity(class, node); got != want {
					t.Fatalf("seed %d: shape %d on %s: %v by value, %v by node", seed, i, s.Nodes[node].Name, got, want)
				}
				by++
			}
		}
	}
	if by < 5000 {
		t.Errorf("only %d nodes were judged", by)
	}
}
