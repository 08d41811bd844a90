// Package fill says which machines new pods are to fill first where pods come and go, so that the others become empty by themselves and
// fewer pods have to be moved off them.
package fill

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Last is the turn of those machines that are filled after all others; the first turn is 0.
const Last = 3

// Every is for how long machines keep their turns; when a machine becomes ready all are given anew.
const Every = 10 * time.Second

// begins is the churn from which on machines have turns. Below ends they have none any more.
const begins, ends = model.Churning, 1.0 / 3

// slack: of so many machines one must be out of its turn by more than one place before it has another.
const slack = 16

// Order gives the turns of machines that have others than the first one; now is what they have. Of each pool those machines are filled
// first whose pods are worth most: price times the share of it that is requested. These are the ones that would be kept anyway, large and
// full, and each further pod makes it more so. Where somebody else prefers that pods stay away from a machine there are no turns: kube-scheduler
// counts taints, whoever's they are, and ours would outweigh theirs.
func Order(s *model.Snapshot, now map[string]int) map[string]int {
	out := map[string]int{}
	if churn := s.Churn(); churn < ends || churn < begins && !ordered(now) || anyAvoided(s.Nodes) {
		return out
	}
	pools := map[string][]ranked{}
	for i := range s.Pools {
		if p := &s.Pools[i]; !p.Static && !p.Disruption.Never {
			pools[p.Name] = nil
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		all, ours := pools[n.Pool]
		switch {
		case !ours || n.Claim == "" || n.State != model.Initialized || n.Deleting || n.Cordoned:
		case n.Price > 0:
			pools[n.Pool] = append(all, ranked{n.Name, used(n)})
		case now[n.Name] > 0: // whoever has just started does not know yet what machines cost
			out[n.Name] = now[n.Name]
		}
	}
	for _, all := range pools { // order does not matter: each is for itself
		slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(a.node, b.node)) })
		for i := range all {
			if turn := turnAt(i, len(all), now[all[i].node]); turn > 0 {
				out[all[i].node] = turn
			}
		}
	}
	return out
}

func anyAvoided(nodes []model.Node) bool {
	for i := range nodes {
		if slices.ContainsFunc(nodes[i].Taints, func(t model.Taint) bool { return t.Effect == model.PreferNoSchedule }) {
			return true
		}
	}
	return false
}

func ordered(now map[string]int) bool {
	for turn := range maps.Values(now) {
		if turn > 0 {
			return true
		}
	}
	return false
}

// turnAt is the turn of a place in the order of so many: the one that the machine has if that is nearly right.
func turnAt(place, of, has int) int {
	turn := func(place int) int { return min(max(place, 0), of-1) * (Last + 1) / of }
	if turn(place-of/slack) <= has && has <= turn(place+of/slack) {
		return has
	}
	return turn(place)
}

type ranked struct {
	node string
	used float64
}

// used is how much of the machine's price is requested: the mean of its shares of CPU and of memory, as kube-scheduler takes it.
func used(n *model.Node) float64 {
	share := 0.0
	for _, r := range []int{model.CPU, model.Memory} {
		if n.Allocatable[r] > 0 {
			share += float64(n.Used[r]) / float64(n.Allocatable[r]) / 2
		}
	}
	return share * float64(n.Price)
}
