package sim

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// EC2's prices grow linearly with an instance's size, so many plans cost the same apart from the costs of nodes
// beside their instances: of those, the one with the fewest nodes wins.
func TestOfPlansWithEqualInstancePricesTheOneWithFewerNodesWins(t *testing.T) {
	spread := func(topology string) []model.Spread {
		return []model.Spread{{Topology: topology, MaxSkew: 1, Pods: model.Selector{
			Namespaces: []string{"default"}, Labels: model.NewRequirements(model.OneOf("app", "web")),
		}}}
	}
	for _, c := range []struct {
		name      string
		pods      int
		cpu       int64 // in thousandths
		memory    int64 // in MiB
		spread    []model.Spread
		min, most int // nodes
	}{
		{"one pod", 1, 1000, 1536, nil, 1, 1},
		{"a small Deployment", 20, 500, 128, nil, 1, 2},
		{"examples/inflate.yaml", 100, 1000, 1536, nil, 1, 4},
		{"pods that want memory", 60, 3000, 8192, nil, 1, 6},
		{"two replicas that would rather be in two zones", 2, 1700, 512, spread(model.LabelZone), 2, 2},
		{"many that would rather be alone", 200, 500, 512, spread(model.LabelHostname), 1, 10},
	} {
		s := &model.Snapshot{
			ResourceNames: model.WellKnownResources[:],
			Pools:         []model.Pool{{Name: "default", Types: Catalogue{Zones: 2}.Types()}},
			Shapes: []model.Shape{{
				Key: "web", Namespace: "default", Labels: []model.Label{{Key: "app", Value: "web"}}, Spread: c.spread,
				Requests: model.Resources{model.CPU: c.cpu, model.Memory: c.memory << 20, model.Pods: 1},
			}},
		}
		for i := range c.pods {
			name := fmt.Sprintf("web-%03d", i)
			s.Pending = append(s.Pending, model.Pod{PodKey: model.PodKey{Namespace: "default", Name: name, UID: name}})
		}
		plan := engine.Provision(s, model.Defaults())
		got := len(plan.Launches)
		if len(plan.Unplaced) > 0 || got < c.min || got > c.most {
			t.Errorf("%s: %d nodes, want %d to %d; %d pods have no place", c.name, got, c.min, c.most,
				len(plan.Unplaced))
		}
	}
}
