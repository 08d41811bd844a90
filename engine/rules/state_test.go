package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// node returns an initialized node with room for ten pods, and labels zone and hostname.
func node(name, zone string, more ...model.Requirement) model.Node {
	labels := append(more, model.OneOf(model.LabelHostname, name))
	if zone != "" {
		labels = append(labels, model.OneOf(model.LabelZone, zone))
	}
	return model.Node{
		Name: name, State: model.Initialized, Labels: model.NewRequirements(labels...),
		Allocatable: model.Resources{model.CPU: 10_000, model.Memory: 10 << 30, model.Pods: 10},
	}
}

// app returns a shape with the label app.
func app(name string) model.Shape {
	return model.Shape{
		Key: name, Namespace: "default", Labels: []model.Label{{Key: "app", Value: name}},
		Requests: model.Resources{model.CPU: 1000, model.Pods: 1},
	}
}

func apps(names ...string) model.Selector {
	return model.Selector{Namespaces: []string{"default"}, Labels: model.Requirements{model.OneOf("app", names...)}}
}

// cluster returns a state of nodes and shapes without pods.
func cluster(nodes []model.Node, shapes ...model.Shape) *rules.State {
	return rules.NewState(&model.Snapshot{Nodes: nodes, Shapes: shapes})
}

// expect checks the state's verdict on shape 0 for each node.
func expect(t *testing.T, st *rules.State, want ...model.Rule) {
	t.Helper()
	for i, w := range want {
		if got := st.Allows(0, i); got != w {
			t.Errorf("node %s: got %q, want %q", st.Node(i).Name, got, w)
		}
	}
}

func TestNodeIsFull(t *testing.T) {
	small := node("small", "a")
	small.Allocatable[model.Pods] = 1
	short := node("short", "a")
	short.Allocatable[model.Memory] = -1
	st := cluster([]model.Node{small, short}, app("web"))
	expect(t, st, "", "") // the pod requests no memory
	st.Bind(0, 0)
	expect(t, st, model.RuleResource, "")
	st.Unbind(0, 0)
	expect(t, st, "")
}

func TestNodeIsClosed(t *testing.T) {
	cordoned, deleting, tainted := node("cordoned", "a"), node("deleting", "a"), node("tainted", "a")
	justNow := node("cordoned-just-now", "a") // kube-controller-manager has not tainted it yet
	cordoned.Cordoned, justNow.Cordoned, deleting.Deleting = true, true, true
	cordoned.Taints = []model.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}}
	tainted.Taints = []model.Taint{{Key: "team", Value: "x", Effect: model.NoExecute}}
	nodes := []model.Node{cordoned, deleting, tainted, justNow}
	expect(t, cluster(nodes, app("web")), model.RuleTaint, model.RuleTaint, model.RuleTaint, model.RuleTaint)
	everywhere := app("agent")
	everywhere.Tolerations = []model.Toleration{{Exists: true}}
	expect(t, cluster(nodes, everywhere), "", model.RuleTaint, "", "")
}

func TestNodeByNameAndLabel(t *testing.T) {
	named := app("web")
	named.Required = model.NewRequirements(model.OneOf(model.NodeNameField, "n1"), model.OneOf(model.LabelZone, "a"))
	flying := node("n1", "a")
	flying.State = model.InFlight
	expect(t, cluster([]model.Node{node("n1", "a"), node("n2", "a"), node("n1", "b"), flying}, named),
		"", model.RuleRequirement, model.RuleRequirement, model.RuleRequirement)

	either := app("web")
	either.AnyOf = []model.Requirements{{model.OneOf(model.NodeNameField, "n2")}, {model.OneOf(model.LabelZone, "b")}}
	expect(t, cluster([]model.Node{node("n1", "a"), node("n2", "a"), node("n3", "b")}, either), model.RuleRequirement,
		"", "")
}

func TestHostPorts(t *testing.T) {
	port := func(name, ip string) model.Shape {
		s := app(name)
		s.HostPorts = []model.HostPort{{IP: ip, Protocol: "TCP", Port: 80}}
		return s
	}
	st := cluster([]model.Node{node("n1", "a"), node("n2", "a")}, port("web", "10.0.0.1"), port("other", "10.0.0.2"),
		port("all", "0.0.0.0"))
	st.Bind(1, 0)
	expect(t, st, "", "")
	st.Bind(2, 0)
	expect(t, st, model.RuleHostPort, "")
	st.Unbind(2, 0)
	expect(t, st, "", "")
}

func TestVolumes(t *testing.T) {
	with := func(name string, volumes ...model.Volume) model.Shape {
		s := app(name)
		s.Volumes = volumes
		return s
	}
	ebs := func(id string) model.Volume { return model.Volume{ID: id, Driver: "ebs"} }
	small, big := node("small", "a"), node("big", "b")
	small.AttachLimits = []model.AttachLimit{{Driver: "ebs", Max: 2}}

	t.Run("a node takes so many of a driver, each counted once", func(t *testing.T) {
		st := cluster([]model.Node{small, big}, with("web", ebs("v1"), ebs("v2")), with("other", ebs("v2"), ebs("v3")),
			with("same", ebs("v2")))
		st.Bind(2, 0)
		st.Bind(2, 0)
		expect(t, st, "")
		st.Bind(1, 0)
		expect(t, st, model.RuleVolumeLimit, "")
		if got := st.Allows(2, 0); got != "" {
			t.Errorf("a volume that is attached already: %q", got)
		}
	})
	t.Run("a node that has more than its limit takes who attaches nothing new", func(t *testing.T) {
		full := node("full", "a")
		full.AttachLimits = []model.AttachLimit{{Driver: "ebs", Max: 1}}
		st := cluster([]model.Node{full}, with("same", ebs("v2")), with("web", ebs("v1"), ebs("v2")))
		st.Bind(1, 0)
		expect(t, st, "")
	})
	t.Run("one that only one pod may use", func(t *testing.T) {
		alone := ebs("v1")
		alone.Alone = true
		st := cluster([]model.Node{small, big}, with("web", alone))
		st.Bind(0, 1)
		expect(t, st, model.RuleVolumeInUse, model.RuleVolumeInUse)
		st.Unbind(0, 1)
		expect(t, st, "", "")
	})
	t.Run("where it can be", func(t *testing.T) {
		v := ebs("v1")
		v.Topology = []model.Requirements{{model.OneOf(model.LabelZone, "b")}, {model.OneOf(model.LabelZone, "c")}}
		expect(t, cluster([]model.Node{small, big}, with("web", v)), model.RuleVolume, "")
	})
}

func spread(s model.Shape, key string, skew int32, change ...func(*model.Spread)) model.Shape {
	c := model.Spread{Topology: key, MaxSkew: skew, Hard: true, Pods: apps(s.Labels[0].Value)}
	for _, f := range change {
		f(&c)
	}
	s.Spread = append(s.Spread, c)
	return s
}

func TestSpread(t *testing.T) {
	a, b, b2, none := node("a1", "a"), node("b1", "b"), node("b2", "b"), node("n1", "")
	t.Run("the fullest domain is at most maxSkew above the emptiest", func(t *testing.T) {
		st := cluster([]model.Node{a, b, b2, none}, spread(app("web"), model.LabelZone, 1))
		expect(t, st, "", "", "", model.RuleSpread)
		st.Bind(0, 1)
		expect(t, st, "", model.RuleSpread, model.RuleSpread, model.RuleSpread)
		st.Bind(0, 0)
		expect(t, st, "", "", "")
	})
	t.Run("pods of others and finished ones do not count", func(t *testing.T) {
		crowded := a
		crowded.Pods = []model.BoundPod{
			{Pod: model.Pod{Shape: 1}},
			{Pod: model.Pod{Shape: 0}, Terminal: true},
			{Pod: model.Pod{Shape: -1}},
			{Pod: model.Pod{Shape: 9}},
		}
		expect(t, cluster([]model.Node{crowded, b}, spread(app("web"), model.LabelZone, 1), app("other")), "", "")
		crowded.Pods = append(crowded.Pods, model.BoundPod{Pod: model.Pod{Shape: 0}})
		expect(t, cluster([]model.Node{crowded, b}, spread(app("web"), model.LabelZone, 1), app("other")),
			model.RuleSpread, "")
	})
	t.Run("pods that are being deleted do not count", func(t *testing.T) {
		crowded := a
		crowded.Pods = []model.BoundPod{{Pod: model.Pod{Shape: 0}, Terminating: true}}
		expect(t, cluster([]model.Node{crowded, b}, spread(app("web"), model.LabelZone, 1)), "", "")
	})
	t.Run("a pod that its own selector does not match does not count", func(t *testing.T) {
		st := cluster([]model.Node{a, b},
			spread(app("web"), model.LabelZone, 1, func(c *model.Spread) { c.Pods = apps("db") }), app("db"))
		st.Bind(1, 0)
		expect(t, st, "", "")
		st.Bind(1, 0)
		expect(t, st, model.RuleSpread, "")
	})
	t.Run("just as many domains as there should be", func(t *testing.T) {
		two := func(c *model.Spread) { c.MinDomains = 2 }
		st := cluster([]model.Node{a, b}, spread(app("web"), model.LabelZone, 1, two))
		st.Bind(0, 0)
		st.Bind(0, 1)
		expect(t, st, "", "")
	})
	t.Run("fewer domains than there should be", func(t *testing.T) {
		three := func(c *model.Spread) { c.MinDomains = 3 }
		st := cluster([]model.Node{a, b}, spread(app("web"), model.LabelZone, 1, three))
		st.Bind(0, 0)
		st.Bind(0, 1)
		expect(t, st, model.RuleSpread, model.RuleSpread)
		st.AddNode(node("c1", "c"))
		expect(t, st, model.RuleSpread, model.RuleSpread, "")
	})
	t.Run("domains the pod cannot use do not count, unless it says so", func(t *testing.T) {
		onlyA := spread(app("web"), model.LabelZone, 1)
		onlyA.Required = model.Requirements{model.OneOf(model.LabelZone, "a")}
		st := cluster([]model.Node{a, b}, onlyA)
		st.Bind(0, 0)
		expect(t, st, "", model.RuleRequirement)
		onlyA.Spread[0].AnyNode = true
		st = cluster([]model.Node{a, b}, onlyA)
		st.Bind(0, 0)
		expect(t, st, model.RuleSpread)
	})
	t.Run("tainted nodes count, unless it says so", func(t *testing.T) {
		tainted := b
		tainted.Taints = []model.Taint{{Key: "x", Effect: model.NoSchedule}}
		st := cluster([]model.Node{a, tainted}, spread(app("web"), model.LabelZone, 1))
		st.Bind(0, 0)
		expect(t, st, model.RuleSpread, model.RuleTaint)
		st = cluster([]model.Node{a, tainted},
			spread(app("web"), model.LabelZone, 1, func(c *model.Spread) { c.Untainted = true }))
		st.Bind(0, 0)
		expect(t, st, "", model.RuleTaint)
	})
	t.Run("nodes without all keys do not count", func(t *testing.T) {
		rack := func(n model.Node) model.Node {
			n.Labels = n.Labels.And(model.Requirements{model.OneOf("rack", n.Name)})
			return n
		}
		st := cluster([]model.Node{rack(a), b}, spread(spread(app("web"), model.LabelZone, 1), "rack", 1))
		st.Bind(0, 0)
		st.Bind(0, 0)
		expect(t, st, "", model.RuleSpread)
	})
	t.Run("an empty selector counts nobody, a missing one neither", func(t *testing.T) {
		for _, s := range []model.Selector{{Namespaces: []string{"default"}}, {Nothing: true}} {
			st := cluster([]model.Node{a, b}, spread(app("web"), model.LabelZone, 1, func(c *model.Spread) { c.Pods = s }))
			st.Bind(0, 0)
			st.Bind(0, 0)
			expect(t, st, "", "")
		}
	})
	t.Run("where the zone of a machine in flight is open nothing is sure", func(t *testing.T) {
		flying := node("claim", "")
		flying.State = model.InFlight
		flying.Labels = model.Requirements{model.OneOf(model.LabelZone, "a", "b")}
		expect(t, cluster([]model.Node{flying}, spread(app("web"), model.LabelZone, 1)), model.RuleSpread)
		expect(t, cluster([]model.Node{flying}, spread(app("web"), model.LabelHostname, 1)), "")
	})
}

func TestAffinity(t *testing.T) {
	near := func(s model.Shape, key string, pods model.Selector) model.Shape {
		s.Affinity = append(s.Affinity, model.PodTerm{Topology: key, Pods: pods})
		return s
	}
	nodes := []model.Node{node("a1", "a"), node("a2", "a"), node("b1", "b"), node("n1", "")}
	t.Run("where the other pod is", func(t *testing.T) {
		st := cluster(nodes, near(app("web"), model.LabelZone, apps("db")), app("db"))
		expect(t, st, model.RuleAffinity, model.RuleAffinity, model.RuleAffinity, model.RuleAffinity)
		st.Bind(1, 0)
		expect(t, st, "", "", model.RuleAffinity, model.RuleAffinity)
	})
	t.Run("the first of a group may go anywhere the key is", func(t *testing.T) {
		st := cluster(nodes, near(app("web"), model.LabelZone, apps("web")))
		expect(t, st, "", "", "", model.RuleAffinity)
		st.Bind(0, 2)
		expect(t, st, model.RuleAffinity, model.RuleAffinity, "", model.RuleAffinity)
	})
	t.Run("one pod must match all terms", func(t *testing.T) {
		st := cluster(nodes, near(near(app("web"), model.LabelZone, apps("db", "cache")), model.LabelHostname,
			apps("db")), app("cache"), app("db"))
		st.Bind(1, 0)
		expect(t, st, model.RuleAffinity)
		st.Bind(2, 0)
		expect(t, st, "", model.RuleAffinity)
	})
	t.Run("namespaces by name and by label", func(t *testing.T) {
		db := app("db")
		db.Namespace = "data"
		kind := func(value string) model.Selector {
			return model.Selector{InMatching: true, NamespaceLabels: model.Requirements{model.OneOf("kind", value)}}
		}
		for _, c := range []struct {
			pods model.Selector
			want model.Rule
		}{
			{model.Selector{Namespaces: []string{"data"}}, ""},
			{model.Selector{Namespaces: []string{"default"}, Labels: apps("db").Labels}, model.RuleAffinity},
			{model.Selector{InMatching: true}, ""},
			{kind("store"), ""},
			{kind("other"), model.RuleAffinity},
		} {
			st := rules.NewState(&model.Snapshot{
				Nodes: nodes, Shapes: []model.Shape{near(app("web"), model.LabelZone, c.pods), db},
				Namespaces: []model.Namespace{
					{Name: "data", Labels: []model.Label{{Key: "kind", Value: "store"}}},
					{Name: "default"},
				},
			})
			st.Bind(1, 0)
			expect(t, st, c.want)
		}
	})
}

func TestAntiAffinity(t *testing.T) {
	apart := func(s model.Shape, key string, pods model.Selector) model.Shape {
		s.AntiAffinity = append(s.AntiAffinity, model.PodTerm{Topology: key, Pods: pods})
		return s
	}
	nodes := []model.Node{node("a1", "a"), node("a2", "a"), node("b1", "b"), node("n1", "")}
	t.Run("its own", func(t *testing.T) {
		st := cluster(nodes, apart(app("web"), model.LabelZone, apps("db")), app("db"))
		st.Bind(1, 1)
		st.Bind(1, 3)
		expect(t, st, model.RuleAntiAffinity, model.RuleAntiAffinity, "", "")
	})
	t.Run("that of a pod that is there", func(t *testing.T) {
		st := cluster(nodes, app("db"), apart(app("web"), model.LabelZone, apps("db")))
		st.Bind(1, 1)
		expect(t, st, model.RuleAntiAffinity, model.RuleAntiAffinity, "", "")
		st.Unbind(1, 1)
		expect(t, st, "", "", "", "")
	})
	t.Run("that of a pod that was there before", func(t *testing.T) {
		held := nodes[2]
		held.Pods = []model.BoundPod{{Pod: model.Pod{Shape: 1}}}
		st := cluster([]model.Node{nodes[0], held}, app("db"), apart(app("web"), model.LabelZone, apps("db")))
		expect(t, st, "", model.RuleAntiAffinity)
	})
	t.Run("on a machine that joins", func(t *testing.T) {
		st := cluster(nodes[:1], apart(app("web"), model.LabelHostname, apps("web")))
		st.Bind(0, 0)
		i := st.AddNode(model.Node{Name: "new", Allocatable: model.Resources{model.CPU: 4000, model.Pods: 10}})
		expect(t, st, model.RuleAntiAffinity, "")
		st.Bind(0, i)
		expect(t, st, model.RuleAntiAffinity, model.RuleAntiAffinity)
	})
}

func TestImpossiblePodsGetARule(t *testing.T) {
	st := cluster([]model.Node{node("n1", "a")}, app("web"))
	for _, at := range [][2]int{{-1, 0}, {0, -1}, {1, 0}, {0, 1}} {
		st.Bind(at[0], at[1])
		if st.Allows(at[0], at[1]) == "" {
			t.Errorf("shape %d on node %d was allowed", at[0], at[1])
		}
	}
	st.Unbind(0, 0)
	expect(t, st, "")
}

// A state in which pods were bound and unbound equals the state of a cluster that has just the remaining pods.
func TestBoundPodsCountLikeRunningOnes(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := randomCluster(rng)
		st := rules.NewState(&s)
		later := s
		later.Nodes = append([]model.Node(nil), s.Nodes...)
		for range 40 {
			shape, n := rng.IntN(len(s.Shapes)), rng.IntN(len(s.Nodes))
			if rng.IntN(4) == 0 {
				st.Allows(shape, n)
				st.Bind(shape, n)
				st.Unbind(shape, n)
				continue
			}
			st.Bind(shape, n)
			later.Nodes[n].Pods = append(later.Nodes[n].Pods, model.BoundPod{Pod: model.Pod{Shape: shape}})
			later.Nodes[n].Used = later.Nodes[n].Used.Plus(s.Shapes[shape].Requests)
		}
		fresh := rules.NewState(&later)
		for shape := range s.Shapes {
			for n := range s.Nodes {
				if got, want := st.Allows(shape, n), fresh.Allows(shape, n); got != want {
					t.Fatalf("seed %d, shape %d on node %d: %q after binding, %q from the beginning", seed, shape, n, got, want)
				}
			}
		}
	}
}

func randomCluster(rng *rand.Rand) model.Snapshot {
	var s model.Snapshot
	for i := range 6 {
		s.Nodes = append(s.Nodes, node(fmt.Sprint("n", i), []string{"a", "b", "c", ""}[rng.IntN(4)]))
	}
	names := []string{"x", "y", "z"}
	key := func() string { return []string{model.LabelZone, model.LabelHostname}[rng.IntN(2)] }
	for i := range 5 {
		sh := app(names[rng.IntN(3)])
		sh.Key = fmt.Sprint(i)
		sh.Requests[model.CPU] = 100
		sh.Requests[model.Pods] = 0
		switch rng.IntN(4) {
		case 0:
			sh.AntiAffinity = []model.PodTerm{{Topology: key(), Pods: apps(names[rng.IntN(3)])}}
		case 1:
			sh.Affinity = []model.PodTerm{{Topology: key(), Pods: apps(names[rng.IntN(3)])}}
		case 2:
			sh = spread(sh, key(), 1+int32(rng.IntN(3)), func(c *model.Spread) { c.MinDomains = int32(rng.IntN(4)) })
		}
		s.Shapes = append(s.Shapes, sh)
	}
	return s
}
