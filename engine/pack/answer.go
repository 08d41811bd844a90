package pack

import (
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/change"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// changesFor is for how many shapes the smallest change is looked for that would place them.
const changesFor = 50

// answer gives the pods that got nothing their Reason, one for each shape.
func (p *problem) answer() {
	looked := 0
	for _, g := range p.groups {
		if g.left() == 0 {
			continue
		}
		reason := p.why(g)
		if looked < changesFor {
			reason.Change = change.Smallest(p.s, g.shape, p.views, p.rooms, &reason)
			looked++
		}
		for _, pod := range g.pods {
			p.refuse(pod, reason)
		}
	}
}

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
		verdict := v.Verdict(&shape, p.rooms[i], p.s.ResourceNames)
		if verdict.Rule == model.RuleSteps && p.classes[g.class].banned[i] {
			verdict.Rule = model.RuleMinValues
		}
		out.Pools = append(out.Pools, verdict)
		if progress := rules.Progress(verdict.Rule); progress > nearest {
			nearest = progress
			out.Rule, out.Object, out.Detail = verdict.Rule, verdict.Object, verdict.Detail
			out.Best, out.BestOf = verdict.Best, verdict.BestOf
		}
	}
	if out.Rule == model.RuleSteps && !p.partial && g.refused == "" && p.policy.Largest != (model.Resources{}) {
		out.Rule, out.Object, out.Detail = model.RuleResource, "", p.policy.Largest.Amounts(p.s.ResourceNames)+" at most, as the policy says, for "+g.request.Amounts(p.s.ResourceNames)
	}
	if out.Rule == model.RuleSteps && !p.partial || ofPods(g.refused) {
		if reason, ok := p.blame(g); ok {
			reason.Pools = out.Pools
			return reason
		}
	}
	return out
}

func ofPods(r model.Rule) bool {
	switch r {
	case model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread, model.RuleHostPort, model.RuleVolumeInUse:
		return true
	}
	return false
}

// blame names the constraint on other pods for which the group got nothing, in words a person knows it by.
func (p *problem) blame(g *group) (model.Reason, bool) {
	r := model.Reason{Rule: g.refused}
	s := g.shape
	switch g.refused {
	case model.RuleAffinity:
		for i := range s.Affinity {
			r.Object, r.Detail = s.Affinity[i].Topology, s.Affinity[i].Pods.Labels.String()
			break
		}
	case model.RuleAntiAffinity:
		for i := range s.AntiAffinity {
			r.Object, r.Detail = s.AntiAffinity[i].Topology, s.AntiAffinity[i].Pods.Labels.String()
			break
		}
	case model.RuleSpread:
		for _, c := range s.Spread {
			if c.Hard {
				r.Object, r.Detail = c.Topology, "maxSkew "+strconv.Itoa(int(c.MaxSkew))
				break
			}
		}
	case model.RuleHostPort:
		var ports []string
		for _, port := range s.HostPorts {
			ports = append(ports, port.Protocol+" "+strconv.Itoa(int(port.Port)))
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

func (p *problem) refuse(pod int, reason model.Reason) {
	p.plan.Unplaced = append(p.plan.Unplaced, model.Unplaced{Pod: p.s.Pending[pod].PodKey, Reason: reason})
}
