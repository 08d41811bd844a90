package check

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// worthwhile: whichever offerings they get, the launches together cost less than the removed nodes, and a launch that
// may have the type of one of several removed nodes costs less than that node. Spot replaces spot only if the policy
// allows it.
func (j *disruption) worthwhile(c *model.Command, victims []*model.Node) {
	object := "command " + c.ID
	if c.Saves <= 0 {
		j.fail("saves", object, "saves %d", c.Saves)
	}
	var total, dearest model.Price
	spot := true
	for _, n := range victims {
		total += j.policy.Effective(n.Price)
		spot = spot && n.CapacityType == model.Spot
	}
	for i := range c.Launches {
		l := &c.Launches[i]
		if j.pools[l.Pool] == nil {
			continue
		}
		worst, again := model.Price(0), false
		for _, w := range slices.Concat(j.optionsOf(l)...) {
			worst = max(worst, j.policy.Effective(w.offer.Price))
			again = again || w.offer.CapacityType == model.Spot
		}
		dearest += worst
		if spot && again && !j.policy.SpotToSpot {
			j.fail("spot to spot", object, "spot would be replaced by spot")
		}
		j.notTheSame(c, l, victims)
	}
	if len(c.Launches) > 0 && dearest >= total {
		j.fail("saves", object, "the replacements may cost %d, the removed nodes cost %d", dearest, total)
	}
	j.paysBack(c, victims)
}

func (j *disruption) notTheSame(c *model.Command, l *model.Launch, victims []*model.Node) {
	for _, n := range victims {
		if len(victims) > 1 && slices.Contains(l.Types, n.Type) && l.Chosen.Price >= n.Price {
			j.fail("saves", "command "+c.ID, "%s is removed, although the replacement may have its type and is not cheaper",
				n.Name)
		}
	}
}

// paysBack: at least half of the pods that leave each node are as old as the time in which the command recovers its
// cost.
func (j *disruption) paysBack(c *model.Command, victims []*model.Node) {
	const handover = time.Minute
	cost := 0.0
	for i := range c.Launches {
		cost += handover.Hours() * float64(c.Launches[i].Chosen.Price)
	}
	for _, n := range victims {
		for i := range n.Pods {
			if p := &n.Pods[i]; leaves(p) {
				cost += float64(max(j.policy.MovePrice, 0)) * float64(max(p.EvictionCost, 0)) / 1000
			}
		}
	}
	const rounded = 0.5 / 3600 // to seconds
	for _, n := range victims {
		young, all := 0, 0
		for i := range n.Pods {
			p := &n.Pods[i]
			if !leaves(p) {
				continue
			}
			all++
			if age := max(j.s.Now.Sub(p.Created).Hours(), 0); !p.Created.IsZero() && float64(c.Saves)*(age+rounded) < cost {
				young++
			}
		}
		if young*2 > all {
			j.fail("pays back", "node "+n.Name, "%d of the %d pods that leave it are too young for what command %s costs",
				young, all, c.ID)
		}
	}
}
