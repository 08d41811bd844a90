package cluster

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// imposed is what an Auto Scaling group imposes on the NodePools whose nodes are its instances.
type imposed struct {
	min, max  int64 // nodes
	taints    []model.Taint
	resources model.Resources // of each node, in place of those of its type; 0 = the type's
}

// SetGroup sets the NodeGroup that a node class is, whose status limits its NodePools; nil, if the class is none,
// changes nothing.
func (pl *pools) SetGroup(class cloud.ClassRef, group *v1alpha1.NodeGroup) {
	if group == nil {
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	now := imposed{
		min: int64(group.Status.MinSize), max: int64(group.Status.MaxSize), taints: translate.Taints(group.Status.Taints),
	}
	now.resources, _ = pl.names.Resources(group.Status.Resources) // pods cannot use what cannot be represented
	old, known := pl.groups[class]
	if known && old.min == now.min && old.max == now.max && slices.Equal(old.taints, now.taints) &&
		old.resources == now.resources {
		return
	}
	if pl.groups == nil {
		pl.groups = map[cloud.ClassRef]imposed{}
	}
	pl.groups[class] = now
	if old.resources != now.resources {
		pl.recomplete(class)
	}
	pl.poke()
}

// SetPlacement sets the labels of which each instance of a node class gets one of several values, such as the
// partitions of a placement group: pods may require one, or be spread over them.
func (pl *pools) SetPlacement(class cloud.ClassRef, labels model.Requirements) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.placements[class].String() == labels.String() {
		return
	}
	if pl.placements == nil {
		pl.placements = map[cloud.ClassRef]model.Requirements{}
	}
	pl.placements[class] = labels
	pl.poke()
}

// impose applies what the group of a pool's class imposes: the pool has no more nodes than the group may have, keeps
// as many as the group must have, and must have the group's taints in its template.
func (pl *pools) impose(p *model.Pool, class cloud.ClassRef) {
	if labels := pl.placements[class]; len(labels) > 0 {
		p.Requirements = p.Requirements.And(labels)
	}
	g, known := pl.groups[class]
	if !known {
		return
	}
	if !p.Limits.NodesSet || p.Limits.Nodes > g.max {
		p.Limits.NodesSet, p.Limits.Nodes, p.Limits.OfGroup = true, g.max, true
	}
	p.MinNodes = g.min
	for _, t := range g.taints {
		if p.NotReady == "" && !slices.Contains(p.Taints, t) {
			p.NotReady = fmt.Sprintf("nodes of NodeGroup %s have the taint %s=%s:%s, which the NodePool lacks: add it to "+
				"spec.template.spec.taints", class.Name, t.Key, t.Value, t.Effect)
		}
	}
}

// equip returns the types with the resources that a group's tags give its nodes.
func (pl *pools) equip(class cloud.ClassRef, types []model.InstanceType) []model.InstanceType {
	more := pl.groups[class].resources
	if more == (model.Resources{}) {
		return types
	}
	out := slices.Clone(types)
	for i := range out {
		equip(&out[i].Capacity, more)
		equip(&out[i].Allocatable, more)
	}
	return out
}

func equip(r *model.Resources, more model.Resources) {
	for i, n := range more {
		if n > 0 {
			r[i] = n
		}
	}
}

// Equip adds to an instance of a node class the resources that the tags of its group give its nodes.
func (pl *pools) Equip(class cloud.ClassRef, i *cloud.Instance) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	more := pl.groups[class].resources
	equip(&i.Capacity, more)
	equip(&i.Allocatable, more)
}
