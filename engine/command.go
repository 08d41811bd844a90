package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// whatIf plans for the pods of a node as if it were removed, and charges the steps.
func (r *run) whatIf(to destinations, n *model.Node) model.Plan {
	plan := r.provision(to, []*model.Node{n}, r.policy)
	r.left--
	if len(plan.Launches)+len(plan.Unplaced) > 0 {
		r.left -= launchSteps - 1
	}
	return plan
}

// provision plans for the pods of nodes as if they were removed.
func (r *run) provision(to destinations, victims []*model.Node, policy model.Policy) (plan model.Plan) {
	r.projected.open(to).without(victims, func(places *solve.Cluster, moving []model.Pod) {
		plan = places.WhatIf(moving, policy, 0)
	})
	return plan
}

// command proposes to remove the nodes once the plan's launches are ready. From now on the run assumes that this has
// happened.
func (r *run) command(how model.Method, victims []*model.Node, plan model.Plan) {
	r.commands = append(r.commands, r.commandOf(how, victims, &plan))
	for _, n := range victims {
		r.take(n, true)
	}
	r.projected.apply(&plan, victims)
}

func (r *run) commandOf(how model.Method, victims []*model.Node, plan *model.Plan) model.Command {
	c := model.Command{Method: how, Launches: plan.Launches, Placements: plan.Placements}
	for _, n := range victims {
		c.Removals = append(c.Removals, r.removalOf(n, how))
		c.Cost += movingCost(n)
	}
	c.Saves = r.priceOf(victims) - r.launchPrice(plan)
	slices.SortFunc(c.Removals, func(a, b model.Removal) int { return cmp.Compare(a.Node, b.Node) })
	text := fmt.Appendf(nil, "%q\n", how)
	for _, x := range c.Removals {
		text = fmt.Appendf(text, "%q %q\n", x.Node, x.Claim)
	}
	for i := range c.Launches {
		text = fmt.Appendf(text, "%q\n", c.Launches[i].ID)
	}
	c.ID = model.Digest(text)
	return c
}
