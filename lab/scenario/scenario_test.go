package scenario

import (
	"reflect"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// web selects app=web in the given namespaces.
func web(namespaces ...string) model.Selector {
	return model.Selector{Namespaces: namespaces, Labels: model.Requirements{model.OneOf("app", "web")}}
}

func TestParseConstraints(t *testing.T) {
	s, _, err := Parse(`
namespace shop labels(team=a)
pods 2 web ns=shop labels(zone=1, app=web) # a pod's label that happens to be called zone
     affinity(zone: app=web) affinity(example.com/rack: tier, app!=db|mq in default|{team=a})
     anti(hostname: * in {}) anti("zone": - in |)
     prefer-pods(+50 zone: app=web) prefer-pods(-7 hostname: app=web)
     spread(zone skew=2 min=3 any-node untainted: app=web) spread(hostname soft: app=web in shop|default)
     ports(8080, 10.0.0.1:53/UDP, "::1:80")
     volume(data driver=ebs alone: zone=a|b, rack=1; zone=c) volume("a: b")
     require(node=n1, "zone"=here) blocked("first: make (data)")
`)
	if err != nil {
		t.Fatal(err)
	}
	teamA := model.Requirements{model.OneOf("team", "a")}
	exists, _ := model.NewRequirement("tier", model.Exists)
	notDB, _ := model.NewRequirement("app", model.NotIn, "db", "mq")
	want := model.Shape{
		Key:      s.Shapes[0].Key,
		Requests: model.Resources{model.Pods: 1}, Namespace: "shop",
		Required: model.NewRequirements(model.OneOf(model.NodeNameField, "n1"), model.OneOf("zone", "here")),
		Labels:   []model.Label{{Key: "app", Value: "web"}, {Key: "zone", Value: "1"}},
		Affinity: []model.PodTerm{
			{Topology: model.LabelZone, Pods: web("shop")},
			{
				Topology: "example.com/rack",
				Pods: model.Selector{
					Namespaces: []string{"default"}, InMatching: true, NamespaceLabels: teamA,
					Labels: model.Requirements{notDB, exists},
				},
			},
		},
		AntiAffinity: []model.PodTerm{
			{
				Topology: model.LabelHostname,
				Pods:     model.Selector{InMatching: true, NamespaceLabels: model.Requirements{}, Labels: model.Requirements{}},
			},
			{Topology: "zone", Pods: model.Selector{Nothing: true, Labels: model.Requirements{}}},
		},
		PreferredPods: []model.PodPreference{
			{Weight: 50, PodTerm: model.PodTerm{Topology: model.LabelZone, Pods: web("shop")}},
			{Weight: -7, PodTerm: model.PodTerm{Topology: model.LabelHostname, Pods: web("shop")}},
		},
		Spread: []model.Spread{
			{
				Topology: model.LabelZone, MaxSkew: 2, MinDomains: 3, Hard: true, AnyNode: true, Untainted: true,
				Pods: web("shop"),
			},
			{Topology: model.LabelHostname, MaxSkew: 1, Pods: web("default", "shop")},
		},
		HostPorts: []model.HostPort{
			{IP: "0.0.0.0", Protocol: "TCP", Port: 8080},
			{IP: "10.0.0.1", Protocol: "UDP", Port: 53},
			{IP: "::1", Protocol: "TCP", Port: 80},
		},
		Volumes: []model.Volume{
			{ID: "data", Driver: "ebs", Alone: true, Topology: []model.Requirements{
				model.NewRequirements(model.OneOf(model.LabelZone, "a", "b"), model.OneOf("rack", "1")),
				model.NewRequirements(model.OneOf(model.LabelZone, "c")),
			}},
			{ID: "a: b"},
		},
		Blocked: "first: make (data)",
	}
	if !reflect.DeepEqual(s.Shapes[0], want) {
		t.Errorf("got\n%+v\nwant\n%+v", s.Shapes[0], want)
	}
	if p := s.Pending[0]; p.Namespace != "shop" || p.Name != "web-1" {
		t.Errorf("the first pod is %s/%s", p.Namespace, p.Name)
	}
	if got := s.Namespaces; len(got) != 1 || got[0].Name != "shop" || got[0].Labels[0].Value != "a" {
		t.Errorf("namespaces %v", got)
	}
}

func TestParseRunningPods(t *testing.T) {
	s, _, err := Parse(`
type c2 cpu=2 memory=4Gi offers(a spot 0.04) attach(ebs=25)
shape web ns=shop cpu=500m labels(app=web) ports(80)
pods 1 more as=web priority=7
pod other/single as=web uid=1234 age=30s
node n1 type=c2 zone=a runs(web-1 as web, old as web terminal, default/x as web priority=3 age=1h, agent daemon)
node n2 type=c2 used(cpu=1) attach(ebs=3) runs(web-2 as web)
`)
	if err != nil {
		t.Fatal(err)
	}
	n1, n2 := s.Nodes[0], s.Nodes[1]
	if n1.Used != (model.Resources{model.CPU: 1000, model.Pods: 2}) || n2.Used != (model.Resources{model.CPU: 1000}) {
		t.Errorf("n1 uses %v, n2 %v", n1.Used, n2.Used)
	}
	if most, _ := model.AttachLimitOf(n1.AttachLimits, "ebs"); most != 25 {
		t.Errorf("n1 attaches %d, want its type's", most)
	}
	if most, _ := model.AttachLimitOf(n2.AttachLimits, "ebs"); most != 3 {
		t.Errorf("n2 attaches %d, want its own", most)
	}
	for i, want := range []model.BoundPod{
		{
			Pod:    model.Pod{PodKey: model.PodKey{Namespace: "default", Name: "agent", UID: "uid-agent-n1"}, Shape: -1},
			Daemon: true, EvictionCost: 1000,
		},
		{Pod: model.Pod{
			PodKey: model.PodKey{Namespace: "default", Name: "x", UID: "uid-x-n1"}, Priority: 3,
			Created: Now.Add(-time.Hour),
		}, EvictionCost: 1000},
		{
			Pod: model.Pod{PodKey: model.PodKey{Namespace: "shop", Name: "old", UID: "uid-old-n1"}}, Terminal: true,
			EvictionCost: 1000,
		},
		{Pod: model.Pod{PodKey: model.PodKey{Namespace: "shop", Name: "web-1", UID: "uid-web-1-n1"}}, EvictionCost: 1000},
	} {
		if !reflect.DeepEqual(n1.Pods[i], want) {
			t.Errorf("n1 runs %+v, want %+v", n1.Pods[i], want)
		}
	}
	single, more := s.Pending[0], s.Pending[1]
	if single.PodKey != (model.PodKey{Namespace: "other", Name: "single", UID: "1234"}) ||
		!single.Created.Equal(Now.Add(-30*time.Second)) {
		t.Errorf("the first pod is %+v", single)
	}
	if more.Namespace != "shop" || more.Priority != 7 || len(s.Shapes) != 1 {
		t.Errorf("the second pod is %+v of %d shapes", more, len(s.Shapes))
	}
}

func TestParsePolicy(t *testing.T) {
	_, p, err := Parse(`policy max-types=3 max-steps=100 solver=first-fit preferences=respect preference-price=0.01 node-fee=0.02
 wait-price=0.6 move-price=0.001 cutoff=0 min-values=best-effort`)
	want := model.Policy{
		MaxTypes: 3, MaxSteps: 100, Solver: model.FirstFit, Preferences: model.Respect, MinValues: model.BestEffort,
		PreferencePrice: 10_000, NodeFee: 20_000,
		WaitPrice: 600_000, MovePrice: 1_000, HasPriorityCutoff: true,
	}
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, %v, want %+v", p, err, want)
	}
}
