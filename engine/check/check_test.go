package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

const cluster = `
type c2 cpu=2 memory=4Gi pods=29 labels(arch=amd64) offers(a spot 0.04, b spot 0.05, b on-demand 0.1 out)
type c8 cpu=8 memory=16Gi pods=58 labels(arch=amd64) offers(a spot 0.16)
type g8 cpu=8 memory=16Gi pods=58 labels(arch=arm64) offers(a spot 0.15)
pool general limit(cpu=16, nodes=3) disrupt(after=1m, empty=1)
pool tainted taint(gpu=true:NoSchedule)
node empty1 pool=general type=c2 zone=b capacity-type=spot ready=1h
node empty2 pool=general type=c2 zone=b capacity-type=spot ready=1h
node small pool=general type=c2 zone=a capacity-type=spot ready=1h allocatable(cpu=1) runs(web)
pods 2 web cpu=1 require(zone=a, arch=amd64)
`

// Each case breaks a good plan in one way; check.Plan must name the broken promise.
func TestJudgeSeesViolations(t *testing.T) {
	for promise, spoil := range map[string]func(*model.Snapshot, *model.Plan){
		"answered once": func(_ *model.Snapshot, p *model.Plan) { p.Placements = nil },
		"reason": func(_ *model.Snapshot,
			p *model.Plan,
		) {
			p.Unplaced = []model.Unplaced{{Pod: p.Launches[0].Pods[0]}}
		},
		"exists":              func(_ *model.Snapshot, p *model.Plan) { p.Placements[0].Node = "nowhere" },
		"takes pods":          func(s *model.Snapshot, _ *model.Plan) { s.Nodes[2].Cordoned = true },
		"taints":              func(_ *model.Snapshot, p *model.Plan) { p.Launches[0].Pool = "tainted" },
		"constraints":         func(_ *model.Snapshot, p *model.Plan) { p.Placements[0].Node = "empty1" },
		"fits":                func(s *model.Snapshot, _ *model.Plan) { s.Shapes[0].Requests[model.CPU] = 9000 },
		"price":               func(_ *model.Snapshot, p *model.Plan) { p.Launches[0].Chosen.Price /= 2 },
		"types":               func(_ *model.Snapshot, p *model.Plan) { p.Launches[0].Types = nil },
		"identity":            func(_ *model.Snapshot, p *model.Plan) { p.Launches[0].ID = "" },
		"ready":               func(s *model.Snapshot, _ *model.Plan) { s.Pools[0].NotReady = "no subnets" },
		"limit":               func(s *model.Snapshot, _ *model.Plan) { s.Pools[0].NodeCount = 3 },
		"lower bound":         func(_ *model.Snapshot, p *model.Plan) { p.LowerBound = 1 << 40 },
		"modelled":            func(s *model.Snapshot, _ *model.Plan) { s.Shapes[0].Unmodelled = []string{"podAffinity"} },
		"available":           func(s *model.Snapshot, _ *model.Plan) { s.Pools[0].Types[0].Offerings[0].Available = false },
		"pool's requirements": func(_ *model.Snapshot, p *model.Plan) { relabel(p, model.OneOf(model.LabelPool, "other")) },
		"min values": func(s *model.Snapshot, _ *model.Plan) {
			s.Pools[0].Requirements = s.Pools[0].Requirements.And(model.Requirements{{
				Key: model.LabelArch, Complement: true,
				MinValues: 2,
			}})
		},
		"budget":           func(s *model.Snapshot, _ *model.Plan) { s.Pools[0].Disruption.AllowedEmpty = 0 },
		"disruptable":      func(s *model.Snapshot, _ *model.Plan) { s.Nodes[0].DoNotDisrupt = true },
		"empty":            func(s *model.Snapshot, _ *model.Plan) { s.Nodes[0].Pods = []model.BoundPod{{}} },
		"consolidateAfter": func(s *model.Snapshot, _ *model.Plan) { s.Nodes[0].LastPodEvent = s.Now },
		"drifted":          func(_ *model.Snapshot, p *model.Plan) { p.Removals[0].Method = model.Drifted },
		"method":           func(_ *model.Snapshot, p *model.Plan) { p.Removals[0].Method = "Whim" },
		"managed":          func(s *model.Snapshot, _ *model.Plan) { s.Nodes[0].Claim = "" },
		"needed": func(s *model.Snapshot, p *model.Plan) {
			p.Placements[0].Node = p.Removals[0].Node
		},
	} {
		s, policy, err := scenario.Parse(cluster)
		if err != nil {
			t.Fatal(err)
		}
		plan := engine.Provision(s, policy)
		gone := engine.Disrupt(s, policy)
		plan.Removals, plan.Kept = gone.Removals, gone.Kept
		if len(plan.Placements) != 1 || len(plan.Launches) != 1 || len(plan.Removals) != 1 ||
			plan.Removals[0].Node != s.Nodes[0].Name {
			t.Fatalf("the good plan is another one now:\n%s", scenario.FormatPlan(s, plan))
		}
		if found := check.Plan(s, policy, plan); len(found) > 0 {
			t.Fatalf("the good plan is not good: %v", found)
		}
		spoil(s, &plan)
		found := check.Plan(s, policy, plan)
		if !slices.ContainsFunc(found,
			func(v check.Violation) bool { return v.Promise == promise && strings.Contains(v.Error(), v.Object) }) {
			t.Errorf("%s: not seen, only %v", promise, found)
		}
	}
}

func relabel(p *model.Plan, r model.Requirement) {
	for i, old := range p.Launches[0].Requirements {
		if old.Key == r.Key {
			p.Launches[0].Requirements = slices.Clone(p.Launches[0].Requirements)
			p.Launches[0].Requirements[i] = r
		}
	}
}
