package solve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// explainer finds out why groups of an attempt could not be placed.
type explainer struct{ *problem }

// headroomOf returns the headroom within which a pool judges a group: for a group that was set aside, the headroom
// before anything was planned.
func (p explainer) headroomOf(g *group, view int) rules.Headroom {
	if g.setAside {
		return p.views[view].Headroom()
	}
	return p.rooms[view]
}

// nearestRule returns why no pool launches a node for the group: the rule of the pool that came nearest to one, unless
// other pods are the cause.
func (p explainer) nearestRule(g *group) model.Rule {
	if g.refused.BetweenPods() {
		return g.refused
	}
	return p.nearestOfPools(g)
}

// nearestOfPools returns the rule of the pool that came nearest to a node for the group.
func (p explainer) nearestOfPools(g *group) model.Rule {
	var nearest model.Rule
	shape := *g.shape
	shape.Requests = g.request
	for i := range p.feasible(g, p.classes).All() {
		verdict := p.verdict(g, &shape, i, p.rooms[i])
		if rules.Progress(verdict.Rule) > rules.Progress(nearest) {
			nearest = verdict.Rule
		}
	}
	return nearest
}

// reasonFor returns why the group cannot be placed. It is the verdict of the pool that came nearest to a node, unless
// other pods are the cause.
func (p explainer) reasonFor(g *group) model.Reason {
	if len(p.views) == 0 {
		return model.Reason{Rule: model.RuleNoPool}
	}
	var out model.Reason
	nearest := -2
	shape := *g.shape
	shape.Requests = g.request
	for i := range p.views {
		verdict := p.verdict(g, &shape, i, p.headroomOf(g, i))
		out.Pools = append(out.Pools, verdict)
		if progress := rules.Progress(verdict.Rule); progress > nearest {
			nearest = progress
			out.Rule, out.Object, out.Detail = verdict.Rule, verdict.Object, verdict.Detail
			out.Best, out.BestOf = verdict.Best, verdict.BestOf
		}
	}
	if out.Rule == model.RuleSteps && !p.partial || g.refused.BetweenPods() {
		if reason, ok := blamePods(g); ok {
			for i := range out.Pools {
				if v := &out.Pools[i]; v.Rule == model.RuleSteps {
					v.Object, v.Detail = reason.Object, reason.Detail
					endFunnel(v, reason.Rule)
				}
			}
			reason.Pools = out.Pools
			return reason
		}
	}
	return out
}

// verdict returns what keeps the group from a pool: the pool's own rules, or else the addresses that planned nodes
// leave, minValues for the pods that share the node, or ports of daemons.
func (p explainer) verdict(g *group, shape *model.Shape, view int, room rules.Headroom) model.PoolVerdict {
	v, c := p.views[view], p.classes.list[g.class]
	out := v.Verdict(shape, room, p.s.ResourceNames)
	if out.Rule == model.RuleCapacity && out.BestOf != "" && len(p.classes.optionsOf(c, view)) == 0 {
		p.blameDaemonPort(g, v, &out)
	}
	if out.Rule != model.RuleSteps {
		return out
	}
	if p.blameAddresses(g, view, &out) {
		return out
	}
	banned := c.opened && c.banned[view]
	if banned || len(v.MinValues) > 0 && !v.BestEffort && !p.partial && g.refused == "" {
		if len(v.MinValues) > 0 {
			out.Object, out.Detail = v.MinValues[0].Key, model.Quantity("", int64(v.MinValues[0].MinValues))
		}
		endFunnel(&out, model.RuleMinValues)
		return out
	}
	if len(p.classes.optionsOf(c, view)) == 0 {
		p.blameDaemonPort(g, v, &out)
	}
	return out
}

// blameAddresses reports whether the pool could launch a node for a pod of the group if the nodes planned so far left
// enough addresses.
func (p explainer) blameAddresses(g *group, view int, out *model.PoolVerdict) bool {
	if !p.addresses.limits(view) || p.partial {
		return false
	}
	v := p.views[view]
	types, zones, enough := rules.NewBits(len(v.Net)), rules.NewBits(len(v.Zones)), false
	for _, o := range p.classes.optionsOf(p.classes.list[g.class], view) {
		for t := range o.Types.All() {
			if !g.request.Fits(v.Net[t]) {
				continue
			}
			for i := range v.Offers[t] {
				if f := &v.Offers[t][i]; f.InStock() && !f.Refused && o.Has(f) {
					types.Set(t)
					zones.Set(f.Zone)
					enough = enough || p.addresses.holds(view, f.Zone, t, g.request[model.Pods])
				}
			}
		}
	}
	// If a subnet has the addresses of one more node, only the order in which nodes were planned can be the reason.
	short := slices.Contains(p.addresses.starved, true) || p.addresses.scarce(view)
	if types.Empty() || enough && !short {
		return false
	}
	v.BlameAddresses(slices.Collect(types.All()), zones, p.addresses.subnets, out)
	out.Funnel = slices.DeleteFunc(out.Funnel, func(f model.FunnelStep) bool { return f.Rule == model.RuleAddresses })
	endFunnel(out, model.RuleAddresses)
	return true
}

// blameDaemonPort names the daemon, if there is one, that occupies a port that the group requests.
func (p explainer) blameDaemonPort(g *group, v *rules.View, out *model.PoolVerdict) {
	for _, port := range g.shape.HostPorts {
		for i := range p.s.Daemons {
			d := &p.s.Daemons[i]
			if slices.ContainsFunc(d.Shape.HostPorts, port.Conflicts) && !v.DaemonTypes(&d.Shape).Empty() {
				out.Object, out.Detail, out.Best, out.BestOf = port.String(), "DaemonSet "+d.Namespace+"/"+d.Name, "", ""
				endFunnel(out, model.RuleHostPort)
				return
			}
		}
	}
}

// endFunnel adds a step to the funnel: the rule left none of the pool's types.
func endFunnel(v *model.PoolVerdict, rule model.Rule) {
	v.Rule = rule
	v.Funnel = append(v.Funnel, model.FunnelStep{Rule: rule})
}

// blamePods names the constraint on other pods that keeps the group unplaced, in the words of the manifest.
func blamePods(g *group) (model.Reason, bool) {
	r := model.Reason{Rule: g.refused}
	s := g.shape
	if r.Rule == "" || r.Rule == model.RuleLimit { // firstfit met a limit, but pods that were dropped left room
		r.Rule = cmp.Or(likelyRule(s), r.Rule)
	}
	switch r.Rule {
	case model.RuleAffinity:
		var pods []string // a pod there must match all terms
		for i := range s.Affinity {
			pods = append(pods, s.Affinity[i].Pods.Labels.String())
		}
		r.Detail = strings.Join(slices.Compact(pods), " and ")
		if len(s.Affinity) > 0 {
			r.Object = s.Affinity[0].Topology
		}
	case model.RuleAntiAffinity:
		for i := range s.AntiAffinity {
			if t := &s.AntiAffinity[i]; r.Object == "" || r.Object == model.LabelHostname {
				r.Object, r.Detail = t.Topology, t.Pods.Labels.String()
			}
		}
	case model.RuleSpread:
		for _, c := range s.Spread {
			if c.Hard && (r.Object == "" || r.Object == model.LabelHostname) { // a new node is a new host
				r.Object, r.Detail = c.Topology, "maxSkew "+strconv.Itoa(int(c.MaxSkew))
			}
		}
	case model.RuleHostPort:
		var ports []string
		for _, port := range s.HostPorts {
			ports = append(ports, port.String())
		}
		r.Object = strings.Join(ports, ", ")
	case model.RuleVolumeInUse:
		if i := slices.IndexFunc(s.Volumes, func(v model.Volume) bool { return v.Alone }); i >= 0 {
			r.Object = s.Volumes[i].ID
		}
	case "":
		return r, false
	}
	return r, true
}

// likelyRule guesses which rule about other pods keeps a shape unplaced if the search did not record one.
func likelyRule(s *model.Shape) model.Rule {
	switch {
	case hasHardSpread(s):
		return model.RuleSpread
	case len(s.Affinity) > 0:
		return model.RuleAffinity
	case len(s.AntiAffinity) > 0:
		return model.RuleAntiAffinity
	}
	return ""
}
