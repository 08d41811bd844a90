package view

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unique"

	"github.com/nodeless/nodeless/explain/record"
)

// Cost is what the pods of a namespace or a workload cost: their share of the prices of the nodes they run on.
type Cost struct {
	Of       Object // a workload, or a namespace alone; zero = what no pod requests
	Pods     int
	Unpriced int   // of its pods, those on nodes of unknown price
	Price    int64 // millionths of a dollar an hour
	Requests Amounts
}

// Priced reports whether its price is known, at least in part. Pods on prepaid nodes cost 0.
func (c Cost) Priced() bool { return c.Price > 0 || c.Pods > c.Unpriced }

// Name returns whose cost it is: a namespace, or KIND NAMESPACE/NAME; "" for what no pod requests.
func (c Cost) Name() string {
	if c.Of.Kind == "" {
		return c.Of.Namespace
	}
	return c.Of.Kind + " " + c.Of.Namespace + "/" + c.Of.Name
}

// Division divides the prices of nodes among namespaces or workloads: it returns the one that a pod belongs to. A
// node's price is divided equally among the resources that it offers, and each resource's part among the node's pods by
// their requests, as record.Weights does. The rest, and the price of nodes that have not joined yet, belongs to the
// zero Object: what no pod requests.
type Division func(*Pod) Object

// GroupNamespace and GroupWorkload are the names of the divisions.
const (
	GroupNamespace = "namespace"
	GroupWorkload  = "workload"
)

// DivideBy returns a division by its name. Pods without a workload count together in each namespace.
func DivideBy(name string) (of Division, ok bool) {
	namespace := func(p *Pod) Object { return Object{Namespace: p.Namespace} }
	switch name {
	case GroupNamespace:
		return namespace, true
	case GroupWorkload:
		return func(p *Pod) Object {
			if p.Workload == (unique.Handle[Object]{}) {
				return namespace(p)
			}
			return p.Workload.Value()
		}, true
	}
	return nil, false
}

// Costs returns what namespaces or workloads cost, most expensive first.
func (of Division) Costs(m *Model) []Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums, prices := map[Object]*Cost{}, map[Object]float64{}
	for _, x := range m.entries {
		var pods []*Pod
		if x.node != nil {
			pods = m.podsAt(x.node.Name)
		}
		for _, part := range of.parts(m, x, pods) {
			c := sums[part.Of]
			if c == nil {
				c = &Cost{Of: part.Of}
				sums[part.Of] = c
			}
			prices[part.Of] += part.Share * float64(x.price())
			c.Pods += len(part.Pods)
			if !x.priced() {
				c.Unpriced += len(part.Pods)
			}
			c.Requests.add(&part.Requests, +1)
		}
	}
	out := make([]Cost, 0, len(sums))
	for o, c := range sums {
		if c.Price = int64(math.Round(prices[o])); c.Price > 0 || c.Pods > 0 {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.Of.Namespace, b.Of.Namespace),
			cmp.Compare(a.Of.Kind, b.Of.Kind), cmp.Compare(a.Of.Name, b.Of.Name))
	})
	return out
}

// Part is what the pods of a namespace or workload take of one node.
type Part struct {
	Of       Object  // zero = what no pod requests
	Share    float64 // of the node's price
	Requests Amounts
	Pods     []int // indices among the node's cells
}

// Parts returns the parts of every node, by the node's name or that of its NodeClaim.
func (of Division) Parts(m *Model) map[string][]Part {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string][]Part, len(m.entries))
	for _, x := range m.entries {
		out[x.name()] = of.parts(m, x, m.inOrder(x))
	}
	return out
}

// parts divides a node among its pods, in the given order. The last part is what no pod requests.
func (of Division) parts(m *Model, x *nodeEntry, pods []*Pod) []Part {
	var out []Part
	at, left := map[Object]int{}, 1.0
	weights := weights(m.resources, x)
	for i, p := range pods {
		o, share := of(p), 0.0
		for r, w := range weights {
			share += w * float64(p.Requests[r])
		}
		k, known := at[o]
		if !known {
			k = len(out)
			at[o], out = k, append(out, Part{Of: o})
		}
		out[k].Share += share
		requests := x.comparable(p.Requests)
		out[k].Requests.add(&requests, +1)
		out[k].Pods = append(out[k].Pods, i)
		left -= share
	}
	return append(out, Part{Share: max(left, 0)})
}

// Page returns a page of Costs, most expensive first unless the query sorts otherwise.
func (of Division) Page(m *Model, q Query) Page[Cost] {
	var o orderOf[Cost]
	var ranks []rank[Cost]
	filter := ParseFilter(q.Filter)
	for _, c := range of.Costs(m) {
		field := func(key string) string {
			return map[string]string{GroupNamespace: c.Of.Namespace, "kind": c.Of.Kind, "name": c.Of.Name}[key]
		}
		o.of++
		if !filter.matches(strings.ToLower(c.Name()), field) {
			continue
		}
		r := rank[Cost]{of: c, name: c.Name()}
		switch i := slices.Index(m.resources, q.Sort.Key); {
		case i >= 0:
			r.number = float64(c.Requests[i])
		case q.Sort.Key == SortPods:
			r.number = float64(c.Pods)
		case q.Sort.Key == SortName:
			r.text = r.name
		case q.Sort.Key == SortPrice:
			r.number = float64(c.Price)
		default:
			r.number = -float64(c.Price)
		}
		ranks = append(ranks, r)
	}
	sorted(ranks, q.Sort)
	o.shown = len(ranks)
	for i := range ranks {
		o.lines = append(o.lines, lineOf[Cost]{key: ranks[i].name, of: ranks[i].of})
	}
	return pageOf(&o, q.Window)
}

// weights returns the share of a node's price that one unit of each resource costs. Pods and addresses are not
// resources that are paid for, and GPUs count once.
func weights(resources []string, x *nodeEntry) []float64 {
	if x.use == nil {
		return nil
	}
	offered := x.allocatable()
	offered[Addresses] = 0
	for i, name := range resources {
		if name == SortPods || record.IsGPU(name) {
			offered[i] = 0
		}
	}
	return record.Weights(offered[:], x.use.requests[:])
}
