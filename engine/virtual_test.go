package engine_test

import (
	"math"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

const placeholders = `type c2 cpu=2 memory=4Gi pods=29 allocatable(cpu=1930m, memory=3Gi) labels(arch=amd64, os=linux) offers(a on-demand 0.1)
pool general limit(cpu=4) usage(cpu=2)
node n1 pool=general type=c2 zone=a ready=1h
pods 2 room cpu=1
pods 2 web cpu=900m
`

// served counts the placed pods and the pods with launches: true are placeholders, false the others.
func served(s *model.Snapshot, plan model.Plan) (placed, launched map[bool]int) {
	kind := map[model.PodKey]bool{}
	for _, p := range s.Pending {
		kind[p.PodKey] = p.Virtual
	}
	placed, launched = map[bool]int{}, map[bool]int{}
	for _, p := range plan.Placements {
		placed[kind[p.Pod]]++
	}
	for _, l := range plan.Launches {
		for _, p := range l.Pods {
			launched[kind[p]]++
		}
	}
	return placed, launched
}

func TestPlaceholdersGetWhatOthersLeave(t *testing.T) {
	s, _, err := scenario.Parse(placeholders)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Pending {
		if s.Pending[i].Name[0] == 'r' {
			s.Pending[i].Virtual, s.Pending[i].Priority = true, math.MinInt32
		}
	}
	for name, policy := range map[string]model.Policy{
		"as always": {}, "first fit": {Solver: model.FirstFit},
		"below the cut-off": {HasPriorityCutoff: true, PriorityCutoff: 0},
	} {
		plan := engine.Provision(s, policy)
		for _, v := range check.Plan(s, policy, plan) {
			t.Errorf("%s: %v", name, v)
		}
		placed, launched := served(s, plan)
		// Both real pods share the existing node; the limit leaves one node, which holds one placeholder.
		if placed[false] != 2 || placed[true] != 0 || launched[true] != 1 || len(plan.Unplaced) != 1 {
			t.Errorf("%s: placed %v, launched %v, unplaced %v", name, placed, launched, plan.Unplaced)
		}
	}
}
