package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// withExpected returns the cluster with some of the pending pods expected instead: half of the shapes' pods, in whole or
// in part; of those without a pending pod, only templates are known.
func withExpected(s *model.Snapshot, seed uint64) *model.Snapshot {
	r := rand.New(rand.NewPCG(seed, 0x6578706563746564))
	out, waits := *s, make([]bool, len(s.Shapes))
	share := make([]int, len(s.Shapes)) // percentage that is expected
	for i := range share {
		share[i] = []int{0, 0, 50, 100}[r.IntN(4)]
	}
	out.Pending, out.Expected = nil, nil
	for _, p := range s.Pending {
		if p.From == "" && !p.Virtual && r.IntN(100) < share[p.Shape] {
			out.Expected = append(out.Expected, p)
			continue
		}
		waits[p.Shape] = true
		out.Pending = append(out.Pending, p)
	}
	for i := range out.Expected {
		p := &out.Expected[i]
		if p.FromTemplate = !waits[p.Shape]; p.FromTemplate {
			p.Nominated = ""
		}
	}
	return model.Canonical(&out)
}

// What is planned beside pods that may never come, or come as others, is right without them.
func TestPlansBesideExpectedPodsKeepEveryPromise(t *testing.T) {
	templates, sure := 0, 0
	for seed := range uint64(1200) {
		s, policy := gen.Random(seed), model.Policy{}
		switch seed % 4 {
		case 1:
			s, policy = gen.Constrained(seed), gen.Policy(seed)
		case 2:
			s, policy = gen.Disruptive(seed), gen.DisruptionPolicy(seed)
		case 3:
			s = withReservations(s, seed)
		}
		if seed%5 == 0 {
			s = withSubnets(s, seed)
		}
		s = withExpected(s, seed)
		judge(t, seed, s, policy)
		if t.Failed() {
			return
		}
		uncertain := s.FromTemplates()
		for _, l := range engine.Provision(s, policy).Launches {
			for _, p := range l.Pods {
				if uncertain[p] {
					templates++
				} else {
					sure++
				}
			}
		}
	}
	if templates < 200 || sure < 2000 {
		t.Errorf("launches for %d pods that templates tell of and %d others: too few to tell", templates, sure)
	}
}
