package view

import "time"

// Document is a cluster at one moment for programs: what -o json and -o yaml print. Fields are only ever added.
type Document struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	At         time.Time  `json:"at"`
	Context    string     `json:"context,omitempty"`
	Prices     string     `json:"priceSource,omitempty"`
	Notes      []string   `json:"notes,omitempty"` // what could not be read, and so is missing here
	Totals     TotalsItem `json:"totals"`
	Nodes      []NodeItem `json:"nodes"`
	Pools      []PoolItem `json:"nodePools"`
	Pending    []PodItem  `json:"pendingPods"`
}

// Use is the requested and allocatable amounts of each resource, as Kubernetes writes quantities.
type Use struct {
	Requests    map[string]string `json:"requests"`
	Allocatable map[string]string `json:"allocatable"`
}

// TotalsItem sums up a cluster. Prices are dollars.
type TotalsItem struct {
	Nodes         int     `json:"nodes"`
	OnTheirWay    int     `json:"onTheirWay"`
	NotReady      int     `json:"notReady"`
	Going         int     `json:"going"`
	PodsPending   int     `json:"podsPending"`
	PodsRunning   int     `json:"podsRunning"`
	PodsBound     int     `json:"podsBound"`
	PricePerHour  float64 `json:"pricePerHour"`
	PricePerMonth float64 `json:"pricePerMonth"`
	Unpriced      int     `json:"nodesWithoutPrice"`
	Use
}

// NodeItem is a node. PricePerHour is null if it is not known.
type NodeItem struct {
	Name           string            `json:"name,omitempty"`
	NodeClaim      string            `json:"nodeClaim,omitempty"`
	NodePool       string            `json:"nodePool,omitempty"`
	InstanceType   string            `json:"instanceType,omitempty"`
	CapacityType   string            `json:"capacityType,omitempty"`
	Zone           string            `json:"zone,omitempty"`
	Status         Status            `json:"status"`
	Why            []string          `json:"why,omitempty"`
	Created        time.Time         `json:"created"`
	ReadyInSeconds float64           `json:"readyInSeconds,omitempty"`
	PricePerHour   *float64          `json:"pricePerHour"`
	Pods           int               `json:"pods"`
	MicroVMOf      string            `json:"microVMOf,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Use
}

// PoolItem is a NodePool.
type PoolItem struct {
	Name               string         `json:"name"`
	Ready              bool           `json:"ready"`
	Problem            string         `json:"problem,omitempty"`
	Weight             int            `json:"weight"`
	Nodes              int            `json:"nodes"`
	PricePerHour       float64        `json:"pricePerHour"`
	Limits             []LimitItem    `json:"limits,omitempty"`
	Budgets            []string       `json:"budgets,omitempty"`
	AllowedDisruptions map[string]int `json:"allowedDisruptions"`
	Use
}

// LimitItem is one of a NodePool's limits.
type LimitItem struct {
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Limit    string `json:"limit"`
}

// PodItem is a pod that has no node yet.
type PodItem struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Created   time.Time         `json:"created"`
	Requests  map[string]string `json:"requests"`
	Gated     bool              `json:"gated,omitempty"`
	Why       string            `json:"why"`
}

// CostList is what namespaces or workloads cost, for programs.
type CostList struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	At         time.Time  `json:"at"`
	Items      []CostItem `json:"items"`
}

// CostItem is one item of a CostList; the item without a namespace is what no pod requests.
type CostItem struct {
	Namespace     string            `json:"namespace,omitempty"`
	Workload      string            `json:"workload,omitempty"` // kind of the workload
	Name          string            `json:"name,omitempty"`     // name of the workload
	PricePerHour  float64           `json:"pricePerHour"`
	PricePerMonth float64           `json:"pricePerMonth"`
	Pods          int               `json:"pods"`
	Requests      map[string]string `json:"requests"`
}

// Document returns Costs for programs, in the order of a query.
func (of Division) Document(m *Model, now time.Time, q Query) CostList {
	d := CostList{APIVersion: "nodeless.sh/v1alpha1", Kind: "CostList", At: now.UTC(), Items: []CostItem{}}
	for _, c := range of.Page(m, q).Rows {
		d.Items = append(d.Items, CostItem{
			Namespace: c.Of.Namespace, Workload: c.Of.Kind, Name: c.Of.Name, Pods: c.Pods,
			PricePerHour: float64(c.Price) / 1e6, PricePerMonth: float64(c.Price*HoursPerMonth) / 1e6,
			Requests: resourceNames(m.resources).quantities(c.Requests),
		})
	}
	return d
}

// resourceNames are the names of the resources that Amounts count.
type resourceNames []string

// Document returns the whole cluster, in the order of a query.
func (m *Model) Document(now time.Time, q Query) Document {
	q.Window, q.Group = Window{}, ""
	t, names := m.Totals(), resourceNames(m.resources)
	d := Document{
		APIVersion: "nodeless.sh/v1alpha1", Kind: "ClusterView", At: now.UTC(), Notes: t.Notes,
		Nodes: []NodeItem{}, Pools: []PoolItem{}, Pending: []PodItem{},
		Totals: TotalsItem{
			Nodes: t.Nodes, OnTheirWay: t.OnTheirWay, NotReady: t.NotReady, Going: t.Going,
			PodsPending: t.Pending, PodsRunning: t.Running, PodsBound: t.Bound,
			PricePerHour: float64(t.Price) / 1e6, PricePerMonth: float64(t.Price*HoursPerMonth) / 1e6, Unpriced: t.Unpriced,
			Use: names.use(t.Requests, t.Allocatable),
		},
	}
	for _, l := range m.Nodes(q).Rows {
		d.Nodes = append(d.Nodes, names.nodeItem(&l.Row))
	}
	for _, p := range m.Pools(now, Query{}).Rows {
		if p.Name != "" {
			d.Pools = append(d.Pools, names.poolItem(&p))
		}
	}
	for _, p := range m.Waiting(Query{}).Rows {
		d.Pending = append(d.Pending,
			PodItem{p.Namespace, p.Name, p.Created.UTC(), names.quantities(p.Requests), p.Gated, p.Why})
	}
	return d
}

func (n resourceNames) nodeItem(r *NodeRow) NodeItem {
	out := NodeItem{
		NodeClaim: r.Claim, NodePool: r.Pool, InstanceType: r.Type, CapacityType: r.CapacityType, Zone: r.Zone,
		Status: r.Status, Why: r.Why,
		Created: r.Created.UTC(), ReadyInSeconds: r.ReadyIn.Seconds(), Pods: r.Pods, MicroVMOf: r.MicroVM,
		Labels: r.Labels, Use: n.use(r.Requests, r.Allocatable),
	}
	if r.HasNode {
		out.Name = r.Name
	}
	if r.Priced() {
		dollars := float64(r.Price) / 1e6
		out.PricePerHour = &dollars
	}
	return out
}

func (n resourceNames) poolItem(p *PoolRow) PoolItem {
	out := PoolItem{
		Name: p.Name, Ready: p.Ready, Problem: p.Problem, Weight: p.Weight, Nodes: p.Rows,
		PricePerHour: float64(p.Price) / 1e6,
		Budgets:      p.Budgets, AllowedDisruptions: map[string]int{}, Use: n.use(p.Requests, p.Sums.Allocatable),
	}
	for _, l := range p.Limits {
		out.Limits = append(out.Limits, LimitItem{l.Resource, l.Used, l.Most})
	}
	for i, reason := range Reasons {
		out.AllowedDisruptions[reason] = p.Allowed[i]
	}
	return out
}

func (n resourceNames) use(requests, allocatable Amounts) Use {
	return Use{n.quantities(requests), n.quantities(allocatable)}
}

func (n resourceNames) quantities(a Amounts) map[string]string {
	out := make(map[string]string, len(n))
	for i, name := range n {
		out[name] = Quantity(name, a[i])
	}
	return out
}
