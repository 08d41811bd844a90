package sim

import "github.com/nodeless/nodeless/engine/fill"

// giveTurns gives machines their turns, if it is time again or one is new.
func (r *run) giveTurns() {
	if r.Decider.Fills == nil || r.now < r.fillDue && !r.newlyReady {
		return
	}
	r.fillDue, r.newlyReady = r.now+fill.Every, false
	now := map[string]int{}
	for i, m := range r.machines {
		if turn := r.slots[i].turn; turn > 0 {
			now[m.node.Name] = turn
		}
	}
	turns := r.Decider.Fills(r.snapshot(), now)
	for i, m := range r.machines {
		if turn := turns[m.node.Name]; turn != r.slots[i].turn {
			r.slots[i].turn = turn
			r.turns++
		}
	}
}

// candidates are machines with room for a pod, of each turn the first of those with the highest score.
type candidates [fill.Last + 1]struct {
	machine int // 1 + which it is, 0 for none
	score   int64
}

func (c *candidates) add(machine, turn int, score int64) {
	if x := &c[turn]; x.machine == 0 || score > x.score {
		x.machine, x.score = machine+1, score
	}
}

// choose is the machine that kube-scheduler takes, -1 for none: TaintToleration gives 100 less the share of the most taints that any candidate has
// of those that the pod does not tolerate, and weighs 3.
func (c *candidates) choose() int {
	most := 0
	for turn := range c {
		if c[turn].machine > 0 {
			most = turn
		}
	}
	best, bestScore := -1, int64(-1)
	for turn := range c {
		score := c[turn].score + 3*int64(100-100*turn/max(most, 1))
		if c[turn].machine > 0 && score > bestScore {
			best, bestScore = c[turn].machine-1, score
		}
	}
	return best
}
