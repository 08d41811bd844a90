package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/table"
)

func benchGrowth(args []string) error {
	f := flag.NewFlagSet("growth", flag.ExitOnError)
	podCounts := numbersFlag(f, "pods", "numbers of pods without constraints", 10_000, 100_000, 1_000_000)
	mixCounts := numbersFlag(f, "mix", "numbers of pods of Karpenter's mix", 1_000, 10_000, 100_000)
	nodeCounts := numbersFlag(f, "nodes", "numbers of machines that exist", 100, 1_000, 5_000, 10_000)
	shapes := f.Int("shapes", 1000, "most shapes of pods")
	runs := f.Int("runs", 3, "runs, of which the one with the least CPU counts")
	profile := f.String("cpuprofile", "", "write a CPU profile to this file")
	_ = f.Parse(args)
	if *shapes < 1 {
		return fmt.Errorf("-shapes %d: needs at least 1", *shapes)
	}

	return profiled(*profile, func() error {
		c, err := catalogueOf("cmr")
		if err != nil {
			return err
		}
		fmt.Printf("%s, %d CPUs, %d types. Provision alone.\n", runtime.Version(), runtime.NumCPU(), len(c.types))
		t := table.New(2, "what", "", "shapes", "wall s", "CPU s", "MiB allocated", "objects", "placed", "machines",
			"above bound", "unplaced")
		for _, n := range *podCounts {
			growthRow(t, "pods", fmt.Sprint(n), c.plain(n, *shapes), *runs)
		}
		for _, n := range *mixCounts {
			growthRow(t, "pods of the mix", fmt.Sprint(n), c.replicated(n, *shapes), *runs)
		}
		for _, n := range *nodeCounts {
			growthRow(t, "1,000 pods, nodes", fmt.Sprint(n), c.running(n, 1000, *shapes), *runs)
		}
		for _, n := range *nodeCounts {
			s := c.running(n, 1, *shapes)
			for _, one := range []struct {
				what string
				is   func(*model.Shape) bool
			}{
				{
					"one plain pod more, nodes",
					func(sh *model.Shape) bool { return len(sh.Spread)+len(sh.Affinity)+len(sh.AntiAffinity) == 0 },
				},
				{"one pod spread over zones, nodes", func(sh *model.Shape) bool {
					return len(sh.Spread) > 0 && sh.Spread[0].Topology == model.LabelZone
				}},
			} {
				if i := slices.IndexFunc(s.Shapes, func(sh model.Shape) bool { return one.is(&sh) }); i >= 0 {
					s.Pending[0].Shape = i
					growthRow(t, one.what, fmt.Sprint(n), s, max(*runs, 10))
				}
			}
		}
		return t.Print(os.Stdout)
	})
}

func growthRow(t *table.Table, what, n string, s *model.Snapshot, runs int) {
	progress("%s %s …", what, n)
	var plan model.Plan
	u := best(runs, func() { plan = engine.Provision(s, model.Policy{}) })
	var cost model.Price
	for i := range plan.Launches {
		cost += plan.Launches[i].Chosen.Price
	}
	t.Add(what, n, fmt.Sprint(len(s.Shapes)), seconds(u.wall), seconds(u.cpu), mib(u.bytes), fmt.Sprint(u.objects),
		fmt.Sprint(len(plan.Placements)),
		fmt.Sprint(len(plan.Launches)), aboveBound(cost, plan.LowerBound), fmt.Sprint(len(plan.Unplaced)))
}

// plain returns n pods without constraints, of the given number of shapes, with realistic requests.
func (c *catalogue) plain(n, shapes int) *model.Snapshot {
	s, random := c.empty(), rand.New(rand.NewSource(42))
	for i := range min(shapes, n) {
		cpu, memory := 50*(1+random.Int63n(80)), 64*(1+random.Int63n(128))
		s.Shapes = append(s.Shapes, model.Shape{
			Key: fmt.Sprintf("shape-%06d", i), Namespace: namespace,
			Requests: model.Resources{model.CPU: cpu, model.Memory: memory << 20, model.Pods: 1},
		})
	}
	s.Pending = replicas(n, len(s.Shapes))
	return s
}

// replicated returns n pods of Karpenter's mix, of the given number of shapes.
func (c *catalogue) replicated(n, shapes int) *model.Snapshot {
	s := c.snapshot(diverse(shapes))
	s.Pending = replicas(n, len(s.Shapes))
	return s
}

func replicas(n, shapes int) []model.Pod {
	pods := make([]model.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("pod-%07d", i)
		pods[i] = model.Pod{PodKey: model.PodKey{Namespace: namespace, Name: name, UID: name}, Shape: i % shapes}
	}
	return pods
}

// running returns a cluster with the given number of nodes, each between half and nearly full, and of pending pods of
// the mix.
func (c *catalogue) running(nodes, pods, shapes int) *model.Snapshot {
	s, random := c.replicated(pods, shapes), rand.New(rand.NewSource(1))
	var sizes []*model.InstanceType
	for i := range c.types {
		if cpu := c.types[i].Capacity[model.CPU]; cpu >= 8000 && cpu <= 32000 {
			sizes = append(sizes, &c.types[i])
		}
	}
	bound := 0
	for i := range nodes {
		t := sizes[random.Intn(len(sizes))]
		o := t.Offerings[random.Intn(len(t.Offerings))]
		n := model.Node{
			Name: fmt.Sprintf("node-%06d", i), Claim: fmt.Sprintf("node-%06d", i), Pool: "default", Type: t.Name,
			Zone: o.Zone, CapacityType: o.CapacityType,
			Capacity: t.Capacity, Allocatable: t.Allocatable, Used: c.overhead(), Price: o.Price, State: model.Initialized,
		}
		n.Labels = t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, o.Zone),
			model.OneOf(model.LabelCapacityType, o.CapacityType),
			model.OneOf(model.LabelHostname, n.Name), model.OneOf(model.LabelPool, "default")))
		full := t.Allocatable[model.CPU] * (50 + random.Int63n(50)) / 100
		for n.Used[model.CPU] < full {
			shape := c.tenant(s, &n, random)
			if shape < 0 || !s.Shapes[shape].Requests.Fits(n.Free()) {
				break
			}
			n.Used = n.Used.Plus(s.Shapes[shape].Requests)
			name := fmt.Sprintf("bound-%08d", bound)
			n.Pods = append(n.Pods, model.BoundPod{Pod: model.Pod{PodKey: model.PodKey{
				Namespace: namespace, Name: name,
				UID: name,
			}, Shape: shape}})
			bound++
		}
		s.Nodes = append(s.Nodes, n)
		s.Pools[0].Usage, s.Pools[0].NodeCount = s.Pools[0].Usage.Plus(t.Capacity), int64(i+1)
	}
	return s
}

// tenant picks a shape that may run on the node: as in a real cluster, pods with anti-affinity on the host are on
// separate nodes and pods with affinity to each other share a zone. Spreads are uneven, as after pods have come and
// gone.
func (c *catalogue) tenant(s *model.Snapshot, n *model.Node, random *rand.Rand) int {
	for range 100 {
		i := random.Intn(len(s.Shapes))
		sh := &s.Shapes[i]
		switch {
		case len(sh.AntiAffinity) > 0 &&
			slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool { return len(s.Shapes[p.Shape].AntiAffinity) > 0 }):
		case len(sh.Affinity) > 0 && c.zones[int(sh.Labels[0].Value[0])%len(c.zones)] != n.Zone:
		default:
			return i
		}
	}
	return -1
}
