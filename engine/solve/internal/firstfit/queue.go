package firstfit

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Where is the place of one pending pod: a node of the State or a machine of the packer, the other being -1, or the rule for
// which it has none.
type Where struct {
	Node, Machine int
	Turn          int // pods can be bound in this order, those that care about others before those that do not
	Rule          model.Rule
}

// PlaceAll places all pending pods but those that are placed already (by index, nil for none), those that ask for most cpu and then memory first. A pod without a place is tried again
// as long as others found one. The answers are by index into Snapshot.Pending. Pods below the policy's priority cutoff use
// only nodes.
func (p *Packer) PlaceAll(placed []bool) []Where {
	out := make([]Where, len(p.s.Pending))
	queue := slices.DeleteFunc(p.queue(), func(i int) bool { return placed != nil && placed[i] })
	turn := 0
	for {
		var left []int
		for _, i := range queue {
			if out[i] = p.placeOne(&p.s.Pending[i]); out[i].Rule != "" {
				left = append(left, i)
				continue
			}
			out[i].Turn = turn
			turn++
		}
		if len(left) == len(queue) {
			return out
		}
		queue = left
	}
}

func (p *Packer) placeOne(pod *model.Pod) Where {
	if pod.Shape < 0 || pod.Shape >= len(p.s.Shapes) {
		return Where{Node: -1, Machine: -1, Rule: model.RuleUnmodelled}
	}
	if p.policy.HasPriorityCutoff && !pod.Virtual && pod.Priority < p.policy.PriorityCutoff {
		node, machine, rule := p.one(pod.Shape, false)
		if rule != "" {
			rule = model.RulePriority
		}
		return Where{Node: node, Machine: machine, Rule: rule}
	}
	node, machine, rule := p.one(pod.Shape, true)
	return Where{Node: node, Machine: machine, Rule: rule}
}

// queue is the order of the pending pods: placeholders after those that somebody waits for.
func (p *Packer) queue() []int {
	out := make([]int, len(p.s.Pending))
	for i := range out {
		out[i] = i
	}
	none := model.Resources{}
	requests := func(i int) *model.Resources {
		if shape := p.s.Pending[i].Shape; shape >= 0 && shape < len(p.s.Shapes) {
			return &p.s.Shapes[shape].Requests
		}
		return &none
	}
	slices.SortStableFunc(out, func(a, b int) int {
		if x, y := p.s.Pending[a].Virtual, p.s.Pending[b].Virtual; x != y {
			if x {
				return 1
			}
			return -1
		}
		x, y := requests(a), requests(b)
		if d := cmp.Compare(y[model.CPU], x[model.CPU]); d != 0 {
			return d
		}
		if d := cmp.Compare(y[model.Memory], x[model.Memory]); d != 0 {
			return d
		}
		if d := p.s.Pending[a].Created.Compare(p.s.Pending[b].Created); d != 0 {
			return d
		}
		return cmp.Compare(p.s.Pending[a].UID, p.s.Pending[b].UID)
	})
	return out
}
