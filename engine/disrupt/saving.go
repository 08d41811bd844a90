package disrupt

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// leastSaving is what must be saved an hour for these machines to go: for each what its pool wants, in money or in percent of
// what the machine costs, or so many percent, whichever is more. The percentage is not for a machine that costs as much as all others of its pool:
// what comes is put there, and it does not become empty however long one waits.
func (r *run) leastSaving(victims []*model.Node, percent int) (sum model.Price) {
	const most = 1 << 40
	for _, n := range victims {
		d, percent := &r.pools[n.Pool].Disruption, percent
		if 2*n.Price >= r.costs[n.Pool] {
			percent = 0
		}
		share := model.Price(min(max(d.MinSavingPercent, percent, 0), 100))
		sum += max(min(d.MinSaving, most), (min(max(n.Price, 0), most)*share+99)/100, 0)
	}
	return sum
}

// worthIt says which pool does not find what is saved worth the moves of its machines' pods; the zero Reason if all do.
func (c *consolidation) worthIt(victims []*model.Node, saves model.Price) model.Reason {
	if reason := c.smallSaving(victims, saves); reason.Rule != "" {
		return reason
	}
	if reason := c.jobs(victims, saves); reason.Rule != "" {
		return reason
	}
	return c.balanced(victims, saves)
}

// hopeless is why the machine stays even if nothing had to take its place.
func (c *consolidation) hopeless(n *model.Node) model.Reason {
	one := []*model.Node{n}
	if reason := c.smallSaving(one, n.Price); reason.Rule != "" {
		return reason
	}
	return c.jobs(one, n.Price)
}

// smallSaving says that less is saved than the machines' pools want, or the policy; the zero Reason if it is enough.
func (r *run) smallSaving(victims []*model.Node, saves model.Price) model.Reason {
	out := model.Reason{Rule: model.RuleSmallSaving, Object: victims[0].Pool, Best: inDollars(saves)}
	least := r.leastSaving(victims, 0)
	if saves >= least {
		if least = r.leastSaving(victims, r.leastPercent); saves >= least {
			return model.Reason{}
		}
		out.BestOf = strconv.Itoa(r.leastPercent) + " %"
	}
	out.Detail = inDollars(least)
	return out
}

func inDollars(p model.Price) string { return strconv.FormatFloat(p.Dollars(), 'f', -1, 64) }
