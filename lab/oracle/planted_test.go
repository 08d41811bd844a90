package oracle

import (
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// planted are typical bugs: something in the cluster is forgotten, or mistaken for something else.
var planted = map[string]func(n *model.Node, s *model.Shape){
	"init containers":    func(n *model.Node, s *model.Shape) { n.Used[model.CPU] = n.Used[model.CPU] * 9 / 10 },
	"the number of pods": func(n *model.Node, s *model.Shape) { n.Allocatable[model.Pods]++ },
	"a byte":             func(n *model.Node, s *model.Shape) { n.Allocatable[model.Memory] += 1 << 27 },
	"node selectors":     func(n *model.Node, s *model.Shape) { s.Required = nil },
	"the other terms":    func(n *model.Node, s *model.Shape) { s.AnyOf = s.AnyOf[:min(1, len(s.AnyOf))] },
	"presence":           func(n *model.Node, s *model.Shape) { present(s.Required, false) },
	"taints":             func(n *model.Node, s *model.Shape) { n.Taints = nil },
	"effects of tolerations": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Tolerations, func(t *model.Toleration) { t.Effect = "" })
	},
	"values of tolerations": func(n *model.Node, s *model.Shape) {
		each(s.Tolerations, func(t *model.Toleration) { t.Exists = true })
	},
	"cordons":    func(n *model.Node, s *model.Shape) { n.Cordoned = false },
	"host ports": func(n *model.Node, s *model.Shape) { s.HostPorts = nil },
	"addresses of ports": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.HostPorts, func(p *model.HostPort) { p.IP = "0.0.0.0" })
	},
	"protocols of ports": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.HostPorts, func(p *model.HostPort) { p.Protocol = "TCP" })
	},
	"places of volumes": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Volumes, func(v *model.Volume) { v.Topology = nil })
	},
	"lone use of volumes": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Volumes, func(v *model.Volume) { v.Alone = false })
	},
	"drivers": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Volumes, func(v *model.Volume) { v.Driver = "" })
	},
	"one of the limits": func(n *model.Node,
		s *model.Shape,
	) {
		each(n.AttachLimits, func(l *model.AttachLimit) { l.Max++ })
	},
	"unusable claims":      func(n *model.Node, s *model.Shape) { s.Blocked = "" },
	"affinity":             func(n *model.Node, s *model.Shape) { s.Affinity = nil },
	"all but one affinity": func(n *model.Node, s *model.Shape) { s.Affinity = s.Affinity[:min(1, len(s.Affinity))] },
	"anti-affinity":        func(n *model.Node, s *model.Shape) { s.AntiAffinity = nil },
	"namespace selectors": func(n *model.Node,
		s *model.Shape,
	) {
		terms(s, func(p *model.Selector) { p.InMatching = false })
	},
	"namespaces": func(n *model.Node, s *model.Shape) {
		terms(s, func(p *model.Selector) { p.InMatching, p.NamespaceLabels = true, nil })
	},
	"missing selectors": func(n *model.Node, s *model.Shape) { terms(s, func(p *model.Selector) { p.Nothing = false }) },
	"topologies": func(n *model.Node, s *model.Shape) {
		each(s.AntiAffinity, func(t *model.PodTerm) { t.Topology = model.LabelHostname })
	},
	"spread":   func(n *model.Node, s *model.Shape) { s.Spread = nil },
	"one skew": func(n *model.Node, s *model.Shape) { each(s.Spread, func(c *model.Spread) { c.MaxSkew++ }) },
	"minDomains": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Spread, func(c *model.Spread) { c.MinDomains = 0 })
	},
	"nodeAffinityPolicy": func(n *model.Node,
		s *model.Shape,
	) {
		each(s.Spread, func(c *model.Spread) { c.AnyNode = !c.AnyNode })
	},
	"nodeTaintsPolicy": func(n *model.Node, s *model.Shape) {
		each(s.Spread, func(c *model.Spread) { c.Untainted = !c.Untainted })
	},
	"pods that leave": func(n *model.Node,
		s *model.Shape,
	) {
		each(n.Pods, func(p *model.BoundPod) { p.Terminating = false })
	},
	"pods that ended": func(n *model.Node,
		s *model.Shape,
	) {
		each(n.Pods, func(p *model.BoundPod) { p.Terminal = false })
	},
	"labels of pods": func(n *model.Node, s *model.Shape) { s.Labels = nil },
}

func each[T any](list []T, change func(*T)) {
	for i := range list {
		change(&list[i])
	}
}

func present(rs model.Requirements, is bool) { each(rs, func(r *model.Requirement) { r.Present = is }) }

func terms(s *model.Shape, change func(*model.Selector)) {
	each(s.Affinity, func(t *model.PodTerm) { change(&t.Pods) })
	each(s.AntiAffinity, func(t *model.PodTerm) { change(&t.Pods) })
}

// Cases that would miss a bug prove nothing: each of these bugs is found quickly.
func TestPlantedBugsAreSeen(t *testing.T) {
	const clusters, often = 4000, 3
	truth := newTruth(t)
	seen := map[string]int{}
	for number := range uint64(clusters) {
		c := generate(1, number)
		verdicts := truth.judge(c)
		for bug, forget := range planted {
			if seen[bug] == often {
				continue
			}
			claim := claimOf(c, truth.options, rand.New(rand.NewPCG(1, 1)))
			for i := range claim.snapshot.Shapes {
				forget(&model.Node{}, &claim.snapshot.Shapes[i])
			}
			for i := range claim.snapshot.Nodes {
				forget(&claim.snapshot.Nodes[i], &model.Shape{})
			}
			if _, failed := claim.compare(c, there, verdicts); failed {
				if seen[bug]++; seen[bug] == often {
					t.Logf("forgetting %s: seen %d times in %d clusters", bug, often, number+1)
				}
			}
		}
	}
	for bug := range planted {
		if seen[bug] < often {
			t.Errorf("forgetting %s: seen in %d of %d clusters", bug, seen[bug], clusters)
		}
	}
}
