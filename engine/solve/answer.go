package solve

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// why asks every pool; the answer of the pool that came nearest to a machine stands for all, unless other pods stand in the
// way.
func (p *problem) why(g *group) model.Reason {
	if len(p.views) == 0 {
		return model.Reason{Rule: model.RuleNoPool}
	}
	var out model.Reason
	nearest := -2
	shape := *g.shape
	shape.Requests = g.request
	for i, v := range p.views {
		verdict := v.Verdict(&shape, p.roomOf(g, i), p.s.ResourceNames)
		if verdict.Rule == model.RuleSteps {
			p.lookCloser(g, i, &verdict)
		}
		out.Pools = append(out.Pools, verdict)
		if progress := rules.Progress(verdict.Rule); progress > nearest {
			nearest = progress
			out.Rule, out.Object, out.Detail = verdict.Rule, verdict.Object, verdict.Detail
			out.Best, out.BestOf = verdict.Best, verdict.BestOf
		}
	}
	if out.Rule == model.RuleSteps && !p.partial || g.refused.BetweenPods() {
		if reason, ok := p.blame(g); ok {
			for i := range out.Pools {
				if v := &out.Pools[i]; v.Rule == model.RuleSteps {
					v.Object, v.Detail = reason.Object, reason.Detail
					end(v, reason.Rule)
				}
			}
			reason.Pools = out.Pools
			return reason
		}
	}
	return out
}

// end says that the rule left none of the pool's types.
func end(v *model.PoolVerdict, rule model.Rule) {
	v.Rule = rule
	v.Funnel = append(v.Funnel, model.FunnelStep{Rule: rule})
}

// lookCloser finds what keeps a pod from a pool beside the pool's own rules: minValues for what shares the machine, the
// policy's largest machine, ports of daemons.
func (p *problem) lookCloser(g *group, view int, verdict *model.PoolVerdict) {
	v, c := p.views[view], p.classes[g.class]
	if c.opened && c.banned[view] || len(v.MinValues) > 0 && !v.BestEffort && !p.partial && g.refused == "" {
		if len(v.MinValues) > 0 {
			verdict.Object, verdict.Detail = v.MinValues[0].Key, model.Quantity("", int64(v.MinValues[0].MinValues))
		}
		end(verdict, model.RuleMinValues)
		return
	}
	options := p.optionsOf(c, view)
	if len(options) == 0 {
		for _, port := range g.shape.HostPorts {
			for i := range p.s.Daemons {
				if d := &p.s.Daemons[i]; slices.ContainsFunc(d.Shape.HostPorts, port.Conflicts) && !v.DaemonTypes(&d.Shape).Empty() {
					verdict.Object, verdict.Detail = port.String(), "DaemonSet "+d.Namespace+"/"+d.Name
					end(verdict, model.RuleHostPort)
					return
				}
			}
		}
	}
	if p.policy.Largest == (model.Resources{}) {
		return
	}
	for t := range v.Net {
		if p.policy.Admits(&v.Pool.Types[t].Capacity) && g.request.Fits(v.Net[t]) && slices.ContainsFunc(options, func(o rules.Option) bool { return o.Types.Has(t) }) {
			return
		}
	}
	at := -1
	for r, most := range p.policy.Largest {
		if most > 0 && (at < 0 || g.request[r] > most && g.request[at] <= p.policy.Largest[at]) {
			at = r
		}
	}
	name := p.s.ResourceNames[at]
	verdict.Object, verdict.Detail, verdict.Best = name, model.Quantity(name, g.request[at]), model.Quantity(name, p.policy.Largest[at])
	end(verdict, model.RuleResource)
}

// blame names the constraint on other pods for which the group got nothing, in words a person knows it by.
func (p *problem) blame(g *group) (model.Reason, bool) {
	r := model.Reason{Rule: g.refused}
	s := g.shape
	if r.Rule == "" {
		r.Rule = likely(s)
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
			if c.Hard && (r.Object == "" || r.Object == model.LabelHostname) { // a new machine is a new host
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
		for _, v := range s.Volumes {
			if v.Alone {
				r.Object = v.ID
				break
			}
		}
	case "":
		return r, false
	}
	return r, true
}

// likely is the rule about other pods that a shape without a machine has broken, where the search did not say.
func likely(s *model.Shape) model.Rule {
	switch {
	case slices.ContainsFunc(s.Spread, func(c model.Spread) bool { return c.Hard }):
		return model.RuleSpread
	case len(s.Affinity) > 0:
		return model.RuleAffinity
	case len(s.AntiAffinity) > 0:
		return model.RuleAntiAffinity
	}
	return ""
}

func (p *problem) refuse(pod int, reason model.Reason) {
	p.plan.Unplaced = append(p.plan.Unplaced, model.Unplaced{Pod: p.s.Pending[pod].PodKey, Reason: reason})
}
