package why

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
)

// Addresses says where nodes and their pods get IP addresses, how many are left, and which nodes have too few.
type Addresses struct {
	// Controller reports whether this is the controller's process; no other process knows how many addresses are free.
	// At is the time of its last decision, to which Free, Launches and Growth refer. At is null if they are unknown,
	// for example without the VPC CNI.
	Controller bool            `json:"controller"`
	At         *time.Time      `json:"at"`
	Targets    *CNITargets     `json:"targets,omitempty"` // of the VPC CNI; null if the cluster has no DaemonSet aws-node
	Subnets    []Subnet        `json:"subnets"`           // by ID
	Launches   []LaunchAddress `json:"launches"`          // by pool, zone
	Warm       []WarmPool      `json:"warm"`              // by pool, type, zone
	Short      []ShortNode     `json:"short"`             // at most maxShort of ShortOf, largest shortage first
	ShortOf    int             `json:"shortOf"`
	Growth     []ZoneOfSubnets `json:"growth"` // by zone
	Gaps       []string        `json:"notKnown,omitempty"`
}

// CNITargets is what the VPC CNI keeps to spare on each node.
type CNITargets struct {
	// Variables are the effective settings of the DaemonSet aws-node, such as WARM_ENI_TARGET=1.
	Variables []string `json:"variables"`
	Prefixes  bool     `json:"prefixes"` // addresses come in blocks of catalog.PrefixSize
	// Custom is custom networking: pods take addresses from other subnets than their nodes.
	Custom bool `json:"customNetwork"`
}

// Subnet is a subnet in which NodePools launch, or from which their pods take addresses.
type Subnet struct {
	ID    string   `json:"id"`
	Zone  string   `json:"zone,omitempty"` // "" if unknown
	CIDR  string   `json:"cidr,omitempty"` // "" if unknown
	Total int64    `json:"total,omitempty"`
	Free  *int64   `json:"free"`  // null if unknown
	Pools []string `json:"pools"` // those that take addresses from it, by name
	// Scattered is how many more addresses are free, but outside the free /28 blocks that pods get.
	Scattered int64 `json:"scattered,omitempty"`
}

// LaunchAddress says where the next node of a pool in a zone takes its addresses. They suffice for Nodes nodes of
// Type, the type that takes the fewest.
type LaunchAddress struct {
	Pool   string `json:"pool"`
	Zone   string `json:"zone"`
	Subnet string `json:"subnet"`
	Free   int64  `json:"free"`
	Type   string `json:"type"`
	Least  int64  `json:"least"`
	Nodes  int64  `json:"nodes"`
}

// WarmPool sums up the nodes of one NodePool, type and zone: what the VPC CNI holds on them according to its targets.
type WarmPool struct {
	Pool     string `json:"pool"`
	Type     string `json:"type"`
	Zone     string `json:"zone"`
	Nodes    int    `json:"nodes"`
	Pods     int    `json:"pods"` // those with an address of the nodes' interfaces
	ENIs     int    `json:"enis"`
	MaxENIs  int    `json:"maxEnis"`
	Prefixes int    `json:"prefixes"`
	Held     int    `json:"held"`   // addresses for pods, including those of Pods
	Room     int    `json:"room"`   // the most addresses for pods that they can hold
	Growth   int    `json:"growth"` // further addresses taken from subnets when the nodes are full of pods
}

// ShortNode is a node whose kubelet accepts more pods than the node can have addresses for.
type ShortNode struct {
	Name  string `json:"name"`
	Pods  int    `json:"pods"`  // the kubelet's limit
	Short int    `json:"short"` // how many of them have no address
}

// ZoneOfSubnets says how many addresses a zone's nodes still take from subnets when full of pods, and how many are
// free.
type ZoneOfSubnets struct {
	Zone   string `json:"zone"`
	Growth int64  `json:"growth"`
	Free   int64  `json:"free"`
}

// maxShort is the maximum number of short nodes listed.
const maxShort = 20

// reservedBySubnet is how many addresses of each subnet AWS reserves. Source: VPC user guide, "Subnet sizing for
// IPv4".
const reservedBySubnet = 5

// AllAddresses returns what is known of the addresses of a cluster. decided is the snapshot of the controller's last
// decision, nil if the controller is another process.
func AllAddresses(c *capture.Cluster, policy model.Policy, decided *model.Snapshot) *Addresses {
	out := &Addresses{Launches: []LaunchAddress{}, Warm: []WarmPool{}, Short: []ShortNode{}, Growth: []ZoneOfSubnets{}}
	out.Controller = decided != nil
	if out.Controller && decided.Subnets != nil {
		out.At = &decided.Now
		out.launches(decided, policy)
		out.Subnets = knownSubnets(decided)
	} else {
		out.Subnets = namedSubnets(c)
	}
	if cni := c.State.CNI(); cni != nil {
		out.Targets = &CNITargets{cni.Targets(), cni.PrefixDelegation, cni.CustomNetwork}
		out.warm(c, cni)
		out.growth()
	}
	for _, gap := range c.Gaps() {
		out.Gaps = append(out.Gaps, gap.Error())
	}
	return out
}

// knownSubnets returns the subnets that the controller decides with.
func knownSubnets(s *model.Snapshot) []Subnet {
	out := make([]Subnet, len(s.Subnets))
	for i := range s.Subnets {
		x := &s.Subnets[i]
		free := max(x.Free, 0) // nodes in flight may take more than there are
		out[i] = Subnet{
			ID: x.ID, Zone: x.Zone, CIDR: x.CIDR, Total: sizeOf(x.CIDR), Free: &free, Pools: []string{},
			Scattered: max(x.Scattered+min(x.Free, 0), 0),
		}
		for k := range s.Pools {
			if p := &s.Pools[k]; slices.Contains(p.Subnets, x.ID) {
				out[i].Pools = append(out[i].Pools, p.Name)
			}
		}
		slices.Sort(out[i].Pools)
	}
	return out
}

// sizeOf returns how many addresses of a range a subnet can assign; 0 if unknown.
func sizeOf(cidr string) int64 {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return 0
	}
	return max(int64(1)<<(32-p.Bits())-reservedBySubnet, 0)
}

// namedSubnets returns the subnets in the status of node classes and in ENIConfigs.
func namedSubnets(c *capture.Cluster) []Subnet {
	byID := map[string]*Subnet{}
	at := func(id, zone string) *Subnet {
		if byID[id] == nil {
			byID[id] = &Subnet{ID: id, Zone: zone, Pools: []string{}}
		}
		return byID[id]
	}
	for _, np := range c.State.NodePools() {
		class := c.Class(cluster.ClassRef(np.Spec.Template.Spec.NodeClassRef))
		if class == nil {
			continue
		}
		for _, s := range class.Status.Subnets {
			x := at(s.ID, s.Zone)
			x.Pools = append(x.Pools, np.Name)
		}
	}
	for _, id := range c.State.PodSubnets() {
		at(id, "")
	}
	out := []Subnet{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		slices.Sort(byID[id].Pools)
		out = append(out, *byID[id])
	}
	return out
}

// launches adds where the next nodes of all pools take their addresses.
func (a *Addresses) launches(s *model.Snapshot, policy model.Policy) {
	for i := range s.Pools {
		for _, z := range query.AddressesOf(s, policy, &s.Pools[i]) {
			a.Launches = append(a.Launches, LaunchAddress{
				s.Pools[i].Name, z.Zone, z.Subnet, max(z.Free, 0), z.Type, z.Least, max(z.Free, 0) / z.Least,
			})
		}
	}
	slices.SortFunc(a.Launches, func(x, y LaunchAddress) int {
		return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Zone, y.Zone))
	})
}

// warm adds what nodes with EC2 network interfaces hold, except Windows nodes and nodes of EKS Auto Mode, which has
// its own VPC CNI.
func (a *Addresses) warm(c *capture.Cluster, cni *catalog.CNI) {
	type key struct{ pool, kind, zone string }
	sums := map[key]*WarmPool{}
	s := c.Snapshot()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		t, ok := catalog.Lookup(n.Type)
		node := c.State.Node(n.Name)
		if !ok || t.NoENIs() || node == nil || node.Labels[eksv1.LabelComputeType] != "" ||
			node.Labels[model.LabelOS] == string(corev1.Windows) {
			continue
		}
		k := key{n.Pool, n.Type, n.Zone}
		if sums[k] == nil {
			sums[k] = &WarmPool{Pool: n.Pool, Type: n.Type, Zone: n.Zone}
		}
		own, host := holders(c.State.PodsOnNode(n.Name))
		host = max(host, catalog.HostPods) // those of a new node may not exist yet
		takes := int(node.Status.Allocatable.Pods().Value())
		sums[k].add(cni, t, own, max(takes-host, own), takes)
		if short := cni.Unaddressed(t, takes, host); short > 0 {
			a.Short = append(a.Short, ShortNode{n.Name, takes, short})
		}
	}
	for _, w := range sums {
		a.Warm = append(a.Warm, *w)
	}
	slices.SortFunc(a.Warm, func(x, y WarmPool) int {
		return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Zone, y.Zone))
	})
	slices.SortFunc(a.Short, func(x, y ShortNode) int {
		return cmp.Or(cmp.Compare(y.Short, x.Short), cmp.Compare(x.Name, y.Name))
	})
	a.ShortOf = len(a.Short)
	a.Short = a.Short[:min(maxShort, len(a.Short))]
}

// add adds a node. pods is the number of its pods with an address of its interfaces, and full is that number when the
// node is full.
func (w *WarmPool) add(cni *catalog.CNI, t *catalog.Type, pods, full, takes int) {
	room := cni.PodAddresses(t)
	held, most := cni.Holding(t, pods, takes), cni.Holding(t, min(full, room), takes)
	w.Nodes++
	w.Pods += pods
	w.ENIs += held.ENIs
	w.MaxENIs += cni.ENIs(t)
	w.Prefixes += held.Prefixes
	w.Held += held.Addresses
	w.Room += room
	w.Growth += max(cni.FromPodSubnet(t, most)-cni.FromPodSubnet(t, held), 0)
}

// growth adds up, by zone, the addresses that nodes may still take and those free in the pools' subnets, if known.
func (a *Addresses) growth() {
	if a.At == nil {
		return
	}
	zones := map[string]*ZoneOfSubnets{}
	for _, w := range a.Warm {
		if zones[w.Zone] == nil {
			zones[w.Zone] = &ZoneOfSubnets{Zone: w.Zone}
		}
		zones[w.Zone].Growth += int64(w.Growth)
	}
	for _, s := range a.Subnets {
		if z := zones[s.Zone]; z != nil && len(s.Pools) > 0 {
			z.Free += *s.Free
		}
	}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		a.Growth = append(a.Growth, *zones[name])
	}
}
