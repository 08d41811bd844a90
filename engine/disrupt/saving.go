package disrupt

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// savings judges whether what a command saves is worth its cost.
type savings struct {
	*run
	totals map[string]total // of pools that balance
}

// leastSaving is what must be saved an hour for these nodes to go: for each what its pool wants, in money or in
// percent of what the node costs, whichever is more.
func (r *savings) leastSaving(victims []*model.Node) (sum model.Price) {
	const most = 1 << 40
	for _, n := range victims {
		d := &r.pools[n.Pool].Disruption
		share := model.Price(min(max(d.MinSavingPercent, 0), 100))
		sum += max(min(d.MinSaving, most), (min(max(n.Price, 0), most)*share+99)/100, 0)
	}
	return sum
}

// worthIt names a pool for which the saving is not worth the moves; the zero Reason if there is none.
func (c *savings) worthIt(victims []*model.Node, saves model.Price) model.Reason {
	if reason := c.smallSaving(victims, saves); reason.Rule != "" {
		return reason
	}
	if reason := c.jobs(victims, saves); reason.Rule != "" {
		return reason
	}
	return c.balanced(victims, saves)
}

// hopeless returns why the node stays even if nothing had to replace it.
func (c *savings) hopeless(n *model.Node) model.Reason {
	one := []*model.Node{n}
	if reason := c.smallSaving(one, n.Price); reason.Rule != "" {
		return reason
	}
	return c.jobs(one, n.Price)
}

// smallSaving says that less is saved than the nodes' pools want; the zero Reason if it is enough.
func (r *savings) smallSaving(victims []*model.Node, saves model.Price) model.Reason {
	least := r.leastSaving(victims)
	if saves >= least {
		return model.Reason{}
	}
	return model.Reason{Rule: model.RuleSmallSaving, Object: victims[0].Pool, Best: inDollars(saves),
		Detail: inDollars(least)}
}

func inDollars(p model.Price) string { return strconv.FormatFloat(p.Dollars(), 'f', -1, 64) }
