package apply

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// FillOrder gives the turns in which machines are to be filled, of those that are not among the first: see engine.FillOrder.
type FillOrder func(s *model.Snapshot, now map[string]int) map[string]int

// mostTurns is how many Nodes one call writes at most, those first that are farthest from their turns: pods that wait come first.
const mostTurns = 64

// Fill has kube-scheduler fill machines in their turns, by taints that it would rather avoid; without an order it takes them off. What a Node
// has is on the Node alone: whoever acts next goes on from there. What could not be written is tried again at the next call.
func (a *Actor) Fill(ctx context.Context, s *model.Snapshot, order FillOrder) {
	now, nodes := map[string]int{}, map[string]*corev1.Node{}
	for i := range s.Nodes {
		node := a.o.World.Node(s.Nodes[i].Name)
		if node == nil || node.DeletionTimestamp != nil || s.Nodes[i].Claim == "" {
			continue
		}
		nodes[node.Name] = node
		if turn := translate.Turn(node); turn > 0 {
			now[node.Name] = turn
		}
	}
	turns := map[string]int{}
	if order != nil {
		turns = order(s, now)
	}
	var other []string
	for name := range nodes {
		if turns[name] != now[name] {
			other = append(other, name)
		}
	}
	far := func(name string) int { return max(turns[name]-now[name], now[name]-turns[name]) }
	slices.SortFunc(other, func(a, b string) int { return cmp.Or(cmp.Compare(far(b), far(a)), cmp.Compare(a, b)) })
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	for _, name := range other[:min(len(other), mostTurns)] {
		group.Go(func() error {
			changed := nodes[name].DeepCopy()
			translate.SetTurn(changed, turns[name])
			err := a.o.Client.Patch(ctx, changed, locked(nodes[name]))
			if err == nil {
				a.o.World.Update(changed)
			} else if !outdated(err) {
				a.o.Log.Warn("kube-scheduler is not told when to fill a machine", "node", name, "turn", turns[name], "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // of functions that do not fail
}
