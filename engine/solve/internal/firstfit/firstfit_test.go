package firstfit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/firstfit"
	"github.com/nodeless/nodeless/lab/gen"
	"github.com/nodeless/nodeless/lab/scenario"
)

// packer parses a cluster in the scenario format.
func packer(t *testing.T, cluster string) (*firstfit.Packer, *model.Snapshot, []*rules.View) {
	t.Helper()
	s, policy, err := scenario.Parse(cluster)
	if err != nil {
		t.Fatal(err)
	}
	p, views := over(s, policy)
	return p, s, views
}

func over(s *model.Snapshot, policy model.Policy) (*firstfit.Packer, []*rules.View) {
	var views []*rules.View
	var rooms []rules.Headroom
	for i := range s.Pools {
		v := rules.NewView(&s.Pools[i], s.Daemons)
		views, rooms = append(views, v), append(rooms, v.Headroom())
	}
	return firstfit.New(s, policy, rules.NewState(s), views, rooms), views
}

// tell places all pending pods and formats the planned nodes, each with its types, zones and pods, and the unplaced
// pods.
func tell(t *testing.T, cluster string) string {
	t.Helper()
	p, s, views := packer(t, cluster)
	nodes, missing := map[string][]string{}, []string{}
	on := map[int][]string{}
	for i, w := range p.PlaceAll(nil) {
		name := s.Pending[i].Name
		switch {
		case w.Rule != "":
			missing = append(missing, fmt.Sprintf("%s: %s", name, w.Rule))
		case w.Node >= 0:
			nodes[s.Nodes[w.Node].Name] = append(nodes[s.Nodes[w.Node].Name], name)
		default:
			on[w.Planned] = append(on[w.Planned], name)
		}
	}
	var out []string
	for _, n := range s.Nodes {
		if len(nodes[n.Name]) > 0 {
			out = append(out, fmt.Sprintf("%s: %s", n.Name, strings.Join(nodes[n.Name], " ")))
		}
	}
	for i, m := range p.Planned() {
		v := views[m.View]
		var types, zones []string
		for t := range v.Pool.Types {
			if m.Types.Has(t) {
				types = append(types, v.Pool.Types[t].Name)
			}
		}
		for z := range m.Zones.All() {
			zones = append(zones, v.Zones[z])
		}
		slices.Sort(zones)
		out = append(out, fmt.Sprintf("%s %s in %s: %s",
			v.Pool.Name, strings.Join(types, "|"), strings.Join(zones, "|"), strings.Join(on[i], " ")))
	}
	return strings.Join(append(out, missing...), "\n")
}

const types = `
type c2 cpu=2 memory=8Gi pods=10 offers(a on-demand 0.1, b on-demand 0.1, c on-demand 0.1)
type c4 cpu=4 memory=16Gi pods=20 offers(a on-demand 0.2, b on-demand 0.2)
pool general
`

func TestStories(t *testing.T) {
	for _, story := range []struct{ name, cluster, want string }{
		{
			"a planned node keeps every type that holds its load", types + "pods 2 web cpu=1",
			"general c2|c4 in a|b|c: web-1 web-2",
		},
		{
			"it grows while some type is large enough, then another is opened", types + "pods 5 web cpu=1",
			"general c4 in a|b|c: web-1 web-2 web-3 web-4\ngeneral c2|c4 in a|b|c: web-5",
		},
		{
			"large pods come first", types + "pod small cpu=1\npod large cpu=3",
			"general c4 in a|b|c: large small",
		},
		{
			"initialized nodes before others, both before planned ones", types +
				"node n1 pool=general type=c2 zone=a state=registered\nnode n2 pool=general type=c2 zone=a\npods 5 web cpu=1",
			"n1: web-3 web-4\nn2: web-1 web-2\ngeneral c2|c4 in a|b|c: web-5",
		},
		{
			"the planned node with the fewest pods takes the next", types + "pods 2 big cpu=3\npods 2 tiny cpu=1",
			"general c4 in a|b|c: big-1 tiny-1\ngeneral c4 in a|b|c: big-2 tiny-2",
		},
		{
			"the heaviest pool that can",
			types + "pool dear weight=10 taint(x=y:NoSchedule)\npool zonal weight=5 require(zone=b)\n" +
				"pod web cpu=1 require(zone=a)\npod any cpu=1",
			"zonal c2|c4 in b: any\ngeneral c2|c4 in a: web",
		},
		{
			"limits are charged with the largest type left",
			types + "pool small weight=9 limit(cpu=5)\npods 2 web cpu=2 anti(hostname: *)",
			"small c2|c4 in a|b|c: web-1\ngeneral c2|c4 in a|b|c: web-2",
		},
		{
			"spread over zones", types + "pods 4 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			"general c2|c4 in a: web-1 web-4\ngeneral c2|c4 in b: web-2\ngeneral c2 in c: web-3",
		},
		{
			"spread over hosts", types + "pods 4 web cpu=1 labels(app=web) spread(hostname skew=2: app=web)",
			"general c2|c4 in a|b|c: web-1 web-2\ngeneral c2|c4 in a|b|c: web-3 web-4",
		},
		{
			"what runs is counted",
			types + "node n1 pool=general type=c2 zone=a runs(old as web)\n" +
				"pods 3 web cpu=1 labels(app=web) spread(zone skew=1: app=web)",
			"n1: web-3\ngeneral c2|c4 in b: web-1\ngeneral c2 in c: web-2",
		},
		{
			"apart by host", types + "pods 2 web cpu=1 labels(app=web) anti(hostname: app=web)",
			"general c2|c4 in a|b|c: web-1\ngeneral c2|c4 in a|b|c: web-2",
		},
		{
			"apart by zone, until none is left",
			types + "pods 4 web cpu=1 labels(app=web) spread(zone skew=1: app=web) anti(zone: app=web)",
			"general c2|c4 in a: web-1\ngeneral c2|c4 in b: web-2\ngeneral c2 in c: web-3\nweb-4: TopologySpread",
		},
		{
			"a zone is chosen, so that others can be elsewhere", types + "pods 2 web cpu=1 labels(app=web) anti(zone: app=web)",
			"general c2|c4 in a: web-1\ngeneral c2|c4 in b: web-2",
		},
		{
			"Karpenter leaves it open, and so keeps others out of all of them",
			types + "policy solver=first-fit\npods 2 web cpu=1 labels(app=web) anti(zone: app=web)",
			"general c2|c4 in a: web-1\nweb-2: PodAntiAffinity",
		},
		{
			"the cheapest of equal zones",
			"type c2 cpu=2 memory=8Gi pods=9 offers(a spot 0.3, b spot 0.2, c spot 0.1 out)\npool general\n" +
				"pod web cpu=1 labels(app=web) spread(zone: app=web)",
			"general c2 in b: web",
		},
		{
			"others keep away from whom they do not know",
			types + "pod lone cpu=2 labels(app=lone) anti(hostname: *)\npod web cpu=1",
			"general c2|c4 in a|b|c: lone\ngeneral c2|c4 in a|b|c: web",
		},
		{
			"near the first of the group", types + "pods 3 web cpu=3 labels(app=web) require(zone=b) affinity(zone: app=web)",
			"general c4 in b: web-1\ngeneral c4 in b: web-2\ngeneral c4 in b: web-3",
		},
		{
			"near one that comes later",
			types + "pod cache cpu=2 affinity(zone: app=db)\npod db cpu=1 labels(app=db) require(zone=b)",
			"general c4 in b: cache db",
		},
		{
			"near nobody", types + "pod web cpu=1 affinity(zone: app=db)",
			"web: PodAffinity",
		},
		{
			"host ports", types + "pods 2 web cpu=1 ports(80)",
			"general c2|c4 in a|b|c: web-1\ngeneral c2|c4 in a|b|c: web-2",
		},
		{
			"host ports of daemons", types + "daemon kube-system/dns ports(53) any(type=c2)\npod web cpu=1 ports(53)",
			"general c4 in a|b|c: web",
		},
		{
			"a volume's zone", types + "pod db cpu=1 volume(data: zone=b)",
			"general c2|c4 in b: db",
		},
		{
			"a volume for one pod only", types + "pods 2 db cpu=1 volume(data alone)",
			"general c2|c4 in a|b|c: db-1\ndb-2: VolumeInUse",
		},
		{
			"attach limits of types",
			"type c2 cpu=4 memory=8Gi pods=9 offers(a spot 1) attach(ebs=1)\n" +
				"type c4 cpu=4 memory=8Gi pods=9 offers(a spot 1) attach(ebs=2)\npool general\n" +
				"pod x cpu=1 volume(v1 driver=ebs)\npod y cpu=1 volume(v2 driver=ebs)\npod z cpu=1 volume(v3 driver=ebs)",
			"general c4 in a: x y\ngeneral c2|c4 in a: z",
		},
		{
			"another term of the affinity", types + "pod web cpu=1 any(zone=x) any(zone=b)",
			"general c2|c4 in b: web",
		},
		{
			"below the cutoff only nodes",
			types + "policy cutoff=0\nnode n1 pool=general type=c2 zone=a\npods 3 idle cpu=1 priority=-1",
			"n1: idle-1 idle-2\nidle-3: Priority",
		},
		{
			"a custom label is decided by the first who asks",
			types + "pool two weight=1 require(team=x|y)\npod one cpu=1 require(team=x)\npod other cpu=1 require(team=y)",
			"two c2|c4 in a|b|c: one\ntwo c2|c4 in a|b|c: other",
		},
		{
			"spread over a custom label",
			types + "pool two weight=1 require(team=x|y)\npods 3 web cpu=1 labels(app=web) spread(team skew=1: app=web)",
			"two c2|c4 in a|b|c: web-1 web-3\ntwo c2|c4 in a|b|c: web-2",
		},
		{
			"blocked, unmodelled, and too large",
			types + "pod b cpu=1 blocked(\"no claim\")\npod u cpu=1 unmodelled(gpus)\npod l cpu=99",
			"b: Blocked\nl: Resource\nu: Unmodelled",
		},
	} {
		t.Run(story.name, func(t *testing.T) {
			if got := tell(t, story.cluster); got != story.want {
				t.Errorf("got\n%s\nwant\n%s", got, story.want)
			}
		})
	}
}

func TestPreferences(t *testing.T) {
	const prefer = "pods 2 web cpu=1 labels(app=web) prefer(10 zone=b) prefer-pods(-5 hostname: app=web)"
	for policy, want := range map[string]string{ // order does not matter: independent cases
		"policy preferences=respect": "general c2|c4 in b: web-1\ngeneral c2|c4 in b: web-2",
		"policy preferences=ignore":  "general c2|c4 in a|b|c: web-1 web-2",
		"":                           "general c2|c4 in b: web-1 web-2",
	} {
		if got := tell(t, types+prefer+"\n"+policy); got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", policy, got, want)
		}
	}
	const never = "policy preferences=respect\n" +
		"pod web cpu=1 prefer(10 zone=x) prefer(5 zone=b) spread(zone skew=1 soft: app=web)"
	if got := tell(t, types+never); got != "general c2|c4 in a: web" && got != "general c2|c4 in b: web" {
		t.Errorf("the wish that can be kept is kept: %s", got)
	}
}

func TestPodsJoinOpenedNodes(t *testing.T) {
	p, s, _ := packer(t, types+"pods 2 web cpu=1 labels(app=web) anti(zone: app=web)\npods 2 plain cpu=1")
	web := slices.IndexFunc(s.Shapes, func(s model.Shape) bool { return len(s.Labels) > 0 })
	all := rules.NewBits(2)
	all.Set(0)
	all.Set(1)
	p.Open(firstfit.Node{
		Shapes: []firstfit.ShapeCount{{Shape: web, N: 1}}, Types: all,
		OfferSet: rules.OfferSet{Zones: rules.Bits{1}, Capacity: rules.Bits{1}},
		Load:     s.Shapes[web].Requests,
	})
	if r, rule := p.Place(web, 1); rule != "" || r[0].Planned != 1 {
		t.Errorf("the second goes to another zone: %+v", r)
	}
	if r, _ := p.Place(1-web, 2); len(r) != 2 || r[0].Planned < 0 || r[1].Planned < 0 || r[0].Planned == r[1].Planned {
		t.Errorf("the others join both: %+v", r)
	}
	if m := p.Planned(); len(m) != 2 || m[0].Zones.Has(1) || m[1].Zones.Has(0) || m[0].Load[model.CPU] != 2000 {
		t.Errorf("%+v", m)
	}
}

// A plan is valid if kube-scheduler could bind its pods one after another in some order, whichever of its offerings
// each planned node becomes.
func TestKubeSchedulerBindsRandomPlans(t *testing.T) {
	for seed := range uint64(150) {
		s := gen.Constrained(seed)
		p, views := over(s, gen.Policy(seed))
		where := p.PlaceAll(nil)
		var nodes []model.Node
		for i, m := range p.Planned() {
			nodes = append(nodes, become(t, seed, i, m, views[m.View]))
		}
		var order []int
		for i, w := range where {
			if w.Rule == "" {
				order = append(order, i)
			}
		}
		slices.SortFunc(order, func(a, b int) int { return where[a].Turn - where[b].Turn })
		for range 20 { // pods that are left are bound first in the next round
			left := bindAll(s, nodes, where, order)
			if len(left) == 0 {
				order = nil
				break
			}
			order = append(left, slices.DeleteFunc(order, func(i int) bool { return slices.Contains(left, i) })...)
		}
		if len(order) > 0 {
			t.Errorf("seed %d: such as %s cannot be bound", seed, s.Pending[order[0]].Name)
		}
	}
}

// bindAll binds each pod as soon as the rules allow it, earlier pods first, and returns the pods that are never
// bound.
func bindAll(s *model.Snapshot, planned []model.Node, where []firstfit.Placement, order []int) []int {
	st := rules.NewState(s)
	for _, n := range planned {
		st.AddNode(n)
	}
	waiting := slices.Clone(order)
	for {
		next := slices.IndexFunc(waiting, func(i int) bool {
			node := where[i].Node
			if node < 0 {
				node = len(s.Nodes) + where[i].Planned
			}
			if st.Allows(s.Pending[i].Shape, node) != "" {
				return false
			}
			st.Bind(s.Pending[i].Shape, node)
			return true
		})
		if next < 0 {
			return waiting
		}
		waiting = slices.Delete(waiting, next, next+1)
	}
}

// become turns a planned node into a node of one of its offerings.
func become(t *testing.T, seed uint64, i int, m firstfit.Node, v *rules.View) model.Node {
	var ways []model.Node
	for x := range v.Net {
		for _, o := range v.Offers[x] {
			if !m.Types.Has(x) || !o.Available || !m.Has(&o) {
				continue
			}
			if !m.Load.Fits(v.Net[x]) {
				t.Fatalf("seed %d: node %d: type %d does not hold the load", seed, i, x)
			}
			labels := v.LabelsOf(x, o).And(m.Custom)
			for l := range labels {
				if !labels[l].Complement && len(labels[l].Values) > 1 {
					labels[l].Values = labels[l].Values[:1]
				}
			}
			ways = append(ways, model.Node{
				Name: fmt.Sprint("planned-", i), State: model.Initialized, Labels: labels, Taints: v.Pool.Taints,
				Allocatable: v.Net[x], AttachLimits: v.Pool.Types[x].AttachLimits,
			})
		}
	}
	if len(ways) == 0 {
		t.Fatalf("seed %d: node %d has no offering", seed, i)
	}
	return ways[int(seed*7+uint64(i))%len(ways)]
}
