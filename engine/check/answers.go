package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// answers judges Provision's answer to each pending pod.
type answers struct{ *judge }

// answeredOnce: each pending pod has exactly one of a placement, a launch and a Reason; other pods have none.
func (j answers) answeredOnce() {
	answers := map[model.PodKey]int{}
	for _, p := range j.plan.Placements {
		answers[p.Pod]++
	}
	for _, l := range j.plan.Launches {
		if c := j.pools[l.Pool]; c != nil && c.pool.Static != (len(l.Pods) == 0) {
			j.fail("answered once", "launch "+l.ID, "is for %d pods, pool %s static: %v", len(l.Pods), l.Pool, c.pool.Static)
		}
		for _, p := range l.Pods {
			answers[p]++
		}
	}
	for _, u := range j.plan.Unplaced {
		answers[u.Pod]++
		if u.Reason.Rule == "" {
			j.fail("reason", podName(u.Pod), "gets nothing and no rule says why")
		}
	}
	for i := range j.s.Pending {
		k := j.s.Pending[i].PodKey
		if n := answers[k]; n != 1 {
			j.fail("answered once", podName(k), "has %d answers", n)
		}
		delete(answers, k)
	}
	j.expected(answers)
	if len(answers) > 0 {
		j.fail("answered once", "plan", "answers %d pods that are not pending", len(answers))
	}
}

// expected: an expected pod has at most one placement or launch, no Reason, and neither unless a pod like it is
// pending, or any pod if it is known from a template. No launch is for such pods alone. It deletes the expected pods
// from answers, which holds the pods that are not pending.
func (j answers) expected(answers map[model.PodKey]int) {
	waits, unplaced := map[int]bool{}, map[model.PodKey]bool{}
	for i := range j.s.Pending {
		if p := &j.s.Pending[i]; p.From == "" && !p.Virtual {
			waits[p.Shape] = true
		}
	}
	for _, u := range j.plan.Unplaced {
		unplaced[u.Pod] = true
	}
	for i := range j.s.Expected {
		p := &j.s.Expected[i]
		switch n := answers[p.PodKey]; {
		case n > 1:
			j.fail("answered once", podName(p.PodKey), "is expected and has %d answers", n)
		case n == 1 && unplaced[p.PodKey]:
			j.fail("expected", podName(p.PodKey), "has a Reason although nobody waits for it")
		case n == 1 && !waits[p.Shape] && !(p.FromTemplate && len(waits) > 0):
			j.fail("expected", podName(p.PodKey), "is answered although no pod like it is pending")
		}
		delete(answers, p.PodKey)
	}
	sure := func(k model.PodKey) bool { return j.pending[k] == nil || !j.pending[k].FromTemplate }
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		if len(l.Pods) > 0 && !slices.ContainsFunc(l.Pods, sure) {
			j.fail("expected", "launch "+l.ID, "is for pods that are known from templates alone")
		}
	}
}

// withoutPools are the rules that no pool causes: preconditions of the pod, limits of the search, and what pods do to
// each other.
var withoutPools = []model.Rule{
	model.RuleUnmodelled, model.RuleBlocked, model.RulePriority, model.RuleSteps, model.RuleUnexplained,
	model.RuleNoPool, model.RuleAffinity,
	model.RuleAntiAffinity, model.RuleSpread, model.RuleHostPort, model.RuleVolumeInUse,
}

// reasons: an unplaced pod has the verdict of every pool, unless no pool causes its Reason.
func (j answers) reasons() {
	for i := range j.plan.Unplaced {
		u := &j.plan.Unplaced[i]
		r, s := &u.Reason, j.shape(u.Pod)
		if s != nil && (r.Rule == model.RuleBlocked && s.Blocked == "" || s.Blocked != "" && r.Rule != model.RuleBlocked &&
			r.Rule != model.RuleUnmodelled) {
			j.fail("reason", podName(u.Pod), "rule %s, but what blocks it is %q", r.Rule, s.Blocked)
		}
		if p := j.pending[u.Pod]; p != nil && r.Rule == model.RulePriority && !j.belowCutoff(p) {
			j.fail("reason", podName(u.Pod), "priority %d is not below the cut-off", p.Priority)
		}
		if r.Rule == model.RuleNoPool && len(j.s.Pools) > 0 {
			j.fail("reason", podName(u.Pod), "there are %d pools", len(j.s.Pools))
		}
		if r.Rule == "" || len(r.Pools) == 0 && slices.Contains(withoutPools, r.Rule) {
			continue
		}
		j.verdicts(u)
	}
}

// verdicts: each pool has given exactly one verdict.
func (j answers) verdicts(u *model.Unplaced) {
	r := &u.Reason
	verdicts := map[string]int{}
	for _, v := range r.Pools {
		if v.Rule != "" {
			verdicts[v.Pool]++
		}
	}
	for k := range j.s.Pools {
		if n := verdicts[j.s.Pools[k].Name]; n != 1 {
			j.fail("reason", podName(u.Pod), "rule %s, and pool %s gave %d verdicts", r.Rule, j.s.Pools[k].Name, n)
			break
		}
	}
	if len(r.Pools) != len(j.s.Pools) {
		j.fail("reason", podName(u.Pod), "%d verdicts of %d pools", len(r.Pools), len(j.s.Pools))
	}
}

func (j *judge) belowCutoff(p *model.Pod) bool {
	return j.policy.HasPriorityCutoff && !p.Virtual && p.Priority < j.policy.PriorityCutoff
}

// decidable: no precondition of the pod is unmet, and the engine decides all of its constraints.
func (j *judge) decidable(k model.PodKey, s *model.Shape) {
	if len(s.Unmodelled) > 0 {
		j.fail("modelled", podName(k), "has %v, which is not decided yet", s.Unmodelled)
	}
	if s.Blocked != "" {
		j.fail("blocked", podName(k), "must wait: %s", s.Blocked)
	}
}
