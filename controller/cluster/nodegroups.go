package cluster

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// Group is what an Auto Scaling group imposes on the NodePools whose nodes are its instances.
type Group struct {
	Min, Max int64 // nodes
	Taints   []model.Taint
}

// SetGroup says what the Auto Scaling group of a node class imposes; nil if the class is none.
func (pl *pools) SetGroup(class cloud.ClassRef, g *Group) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	old, known := pl.groups[class]
	switch {
	case g == nil && !known:
		return
	case g == nil:
		delete(pl.groups, class)
	case known && old.Min == g.Min && old.Max == g.Max && slices.Equal(old.Taints, g.Taints):
		return
	default:
		pl.groups[class] = *g
	}
	pl.poke()
}

// impose applies what the group of a pool's class imposes: the pool has no more nodes than the group may have, keeps as
// many as the group must have, and must not take its nodes to be without the group's taints.
func (pl *pools) impose(p *model.Pool, class cloud.ClassRef) {
	g, known := pl.groups[class]
	if !known {
		return
	}
	if !p.Limits.NodesSet || p.Limits.Nodes > g.Max {
		p.Limits.NodesSet, p.Limits.Nodes = true, g.Max
	}
	p.MinNodes = g.Min
	for _, t := range g.Taints {
		if p.NotReady == "" && !slices.Contains(p.Taints, t) {
			p.NotReady = fmt.Sprintf("nodes of NodeGroup %s have the taint %s, the NodePool's have not: add it to "+
				"spec.template.spec.taints", class.Name, t)
		}
	}
}
