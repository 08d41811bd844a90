// Package viewtest makes synthetic clusters for tests and benchmarks of views. They are the same at each call.
package viewtest

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/view"
)

// Now is the time at which the clusters are viewed.
var Now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// Gi is a gibibyte.
const Gi = int64(1) << 30

var (
	zones = []string{"us-west-2a", "us-west-2b", "us-west-2c"}
	types = []struct {
		name   string
		cores  int64
		memory int64
	}{{"c6a.4xlarge", 16, 32}, {"m7g.2xlarge", 8, 32}, {"r6i.xlarge", 4, 32}}
	pools = []string{"general", "batch"}
)

// Cluster returns a cluster of a number of nodes with podsEach pods each, in two NodePools; it counts CPU and memory.
// Every tenth node is a spot node. It also returns the pods, so that they can be changed.
func Cluster(nodes, podsEach int) (*view.Model, []*view.Pod) {
	m, err := view.New([]string{"cpu", "memory"})
	if err != nil {
		panic(err)
	}
	for _, name := range pools {
		m.SetPool(Pool(name))
	}
	var all []*view.Pod
	for i := range nodes {
		m.SetClaim(Claim(i))
		m.SetNode(Node(i))
		for j := range podsEach {
			p := Pod(i, j, podsEach)
			m.SetPod(p)
			all = append(all, p)
		}
	}
	return m, all
}

func labels(i int) map[string]string {
	capacity := "on-demand"
	if i%10 == 0 {
		capacity = "spot"
	}
	zone := zones[i%len(zones)]
	return map[string]string{
		"karpenter.sh/nodepool": pools[i%7%len(pools)], "karpenter.sh/capacity-type": capacity,
		"topology.kubernetes.io/zone":   zone,
		"topology.kubernetes.io/region": "us-west-2", "node.kubernetes.io/instance-type": types[i%len(types)].name,
		"kubernetes.io/arch": "amd64",
		"team":               fmt.Sprintf("team-%d", i%5),
	}
}

func size(i int) view.Amounts {
	t := types[i%len(types)]
	return view.Amounts{t.cores*1000 - 110, (t.memory - 2) * Gi}
}

func created(i int) time.Time { return Now.Add(-time.Duration(i+1) * 97 * time.Second) }

// Claim returns the NodeClaim of the i-th node, which was ready within 44 s.
func Claim(i int) *view.Claim {
	at := created(i)
	l := labels(i)
	return &view.Claim{
		Name: fmt.Sprintf("%s-%05d", l["karpenter.sh/nodepool"], i), Node: NodeName(i),
		ProviderID: fmt.Sprintf("aws:///us-west-2a/i-%08x", i),
		Labels:     l, Created: at, Launched: at.Add(2 * time.Second), Registered: at.Add(31 * time.Second),
		Initialized: at.Add(44 * time.Second),
		Allocatable: size(i), Price: view.PriceOf(l),
	}
}

// NodeName returns the name of the i-th node.
func NodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.us-west-2.compute.internal", i>>16&255, i>>8&255, i&255)
}

// Node returns the i-th node, which is Ready.
func Node(i int) *view.Node {
	c := Claim(i)
	return &view.Node{
		Name: c.Node, ProviderID: c.ProviderID, Labels: c.Labels, Created: c.Created.Add(20 * time.Second), Ready: true,
		ReadyChanged: c.Initialized,
		Allocatable:  c.Allocatable, Price: c.Price,
	}
}

// Pod returns the j-th of each pods on the i-th node; together they request 20 to 100 percent of its CPU.
func Pod(i, j, each int) *view.Pod {
	s := size(i)
	share := int64(20 + i*37%81)
	return &view.Pod{
		UID: fmt.Sprintf("uid-of-web-%d-%d", i, j), Namespace: "shop", Name: fmt.Sprintf("web-%d-%d", i, j),
		Node: NodeName(i), Created: Now.Add(-time.Hour), Phase: view.Running,
		Requests: view.Amounts{s[0] * share / 100 / int64(each), s[1] / 2 / int64(each)},
	}
}

// Pool returns a NodePool that allows a tenth of its nodes to be disrupted, and none that drifted from 9 to 17
// o'clock. The pool batch fails to register nodes.
func Pool(name string) *view.Pool {
	p := &view.Pool{
		Name: name, Weight: 10, Ready: true, Budgets: []string{"10%"},
		Limits: []view.Limit{{Resource: "cpu", Used: "96", Most: "1k", UsedShare: 0.096}},
		Allowed: func(_ time.Time, nodes int) (out [len(view.Reasons)]int) {
			for i := range out {
				out[i] = (nodes + 9) / 10
			}
			return out
		},
		Disruption: func(now time.Time) view.Disruption {
			day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
			work := view.Turn{Active: now.Hour() >= 9 && now.Hour() < 17, Next: day.Add(17 * time.Hour)}
			if !work.Active {
				if work.Next = day.Add(9 * time.Hour); !work.Next.After(now) {
					work.Next = work.Next.Add(24 * time.Hour)
				}
			}
			var spans []view.Span
			for i := range 7 {
				from := day.Add(time.Duration(24*i+9) * time.Hour)
				if to := from.Add(8 * time.Hour); to.After(now) {
					spans = append(spans, view.Span{From: from, To: to})
				}
			}
			return view.Disruption{Zone: "UTC", Budgets: []view.Budget{
				{Turn: view.Turn{Active: true}, Nodes: "10%"},
				{
					Turn: work, Nodes: "0", Reasons: []string{"Drifted"},
					Schedule: "0 9 * * *", Duration: 8 * time.Hour, Spans: spans,
				},
			}}
		},
	}
	if name == "batch" {
		p.Conditions = []view.Condition{{
			Type: "NodeRegistrationHealthy", Status: "False", Reason: "RegistrationFailed",
			Message: "nodes do not register", Since: Now.Add(-time.Hour),
		}}
	}
	return p
}
