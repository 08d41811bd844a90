package disrupt

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// balancedScore is what a command must reach in pools with consolidationPolicy Balanced: the share of the pool's
// price that it saves, over the share of the pool's moving cost that it incurs (karpenter.md §8.2: k = 2).
const balancedScore = 0.5

// total is what a pool costs, and what moving all of its pods would cost.
type total struct {
	price  model.Price
	moving int64
}

// poolTotals returns the totals of pools with consolidationPolicy Balanced.
func (r *run) poolTotals() map[string]total {
	out := map[string]total{}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if p := r.pools[n.Pool]; p != nil && p.Disruption.Balanced && n.Claim != "" {
			t := out[n.Pool]
			out[n.Pool] = total{t.price + max(n.Price, 0), t.moving + movingCost(n)}
		}
	}
	return out
}

// balanced names the pool for which the command is not worth it; the zero Reason if there is none. The saving is
// divided among the pools by the price of their nodes.
func (c *savings) balanced(victims []*model.Node, saves model.Price) model.Reason {
	all, of := model.Price(0), map[string]total{}
	for _, n := range victims {
		t := of[n.Pool]
		of[n.Pool] = total{t.price + n.Price, t.moving + movingCost(n)}
		all += n.Price
	}
	for _, n := range victims {
		whole, balances := c.totals[n.Pool]
		if !balances || whole.price <= 0 || all <= 0 {
			continue
		}
		part := of[n.Pool]
		saved := float64(saves) * (float64(part.price) / float64(all))
		score := (saved / float64(whole.price)) / (float64(part.moving) / float64(whole.moving))
		if score < balancedScore {
			return model.Reason{
				Rule: model.RuleBalanced, Object: n.Pool,
				Detail: strconv.FormatFloat(balancedScore, 'f', 2, 64), Best: strconv.FormatFloat(score, 'f', 2, 64),
			}
		}
	}
	return model.Reason{}
}
