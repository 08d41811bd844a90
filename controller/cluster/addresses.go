package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/api/eksv1"
	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

const (
	// settling is how long a node may take to get addresses, once it is ready, or has a new pod.
	settling = 30 * time.Second
	// patience is how long the pods that a node was launched for may take to arrive once it is ready; they may never.
	patience = 5 * time.Minute
)

// subnets are the subnets of the node classes with their free addresses, and what nodes take from them.
type subnets struct {
	*hub
	objects *objects
	nodes   *nodes
	byClass classSubnets
	pods    podNetwork
	windows windowsNetwork
	cni     *facts.CNI // of all nodes, or of all but those of EKS Auto Mode; nil if it is not known what they take
	builtIn bool       // see Options.BuiltInCNI
	host    int        // pods of DaemonSets on the host network of a node, at least facts.HostPods
	rolled  int64      // the generation of the VPC CNI's DaemonSet that last ran on all nodes
	// earlier are the values that cni had until changed. They are kept as long as nodes may hold addresses that they
	// requested and that the cloud's numbers do not include.
	earlier []facts.CNI
	changed time.Time
}

// classSubnets are the subnets of node classes.
type classSubnets map[cloud.ClassRef][]cloud.Subnet

// SetSubnets sets the subnets in which a node class launches, with their free addresses. The State keeps the slice:
// do not change it.
func (s *State) SetSubnets(class cloud.ClassRef, list []cloud.Subnet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.subnets.byClass[class]
	if len(list) > 0 {
		s.subnets.byClass[class] = list
	} else {
		delete(s.subnets.byClass, class)
	}
	if !slices.EqualFunc(before, list, func(a, b cloud.Subnet) bool { return a.ID == b.ID }) {
		s.pools.readdress()
	}
	same := func(a, b cloud.Subnet) bool { return a.ID == b.ID && a.Free == b.Free && a.Scattered == b.Scattered }
	if !slices.EqualFunc(before, list, same) {
		s.poke()
	}
}

// readCNI reads the configuration of the VPC CNI from its DaemonSet and counts the DaemonSets on the host network. It
// reports whether either changed.
func (sn *subnets) readCNI() (changed bool) {
	before, host := sn.cni, sn.host
	sn.cni, sn.host = nil, 0
	for _, ds := range sn.objects.daemonSets.live {
		if c := translate.CNI(ds); c != nil {
			sn.cni = c
		}
		if ds.Spec.Template.Spec.HostNetwork && ds.DeletionTimestamp == nil {
			sn.host++
		}
	}
	sn.host = max(sn.host, facts.HostPods)
	if before != nil && sn.cni != nil && *before != *sn.cni {
		sn.earlier, sn.changed = append(sn.earlier, *before), sn.clock.Now()
	}
	return host != sn.host || (before == nil) != (sn.cni == nil) || before != nil && *before != *sn.cni
}

// isAutoClass reports whether the nodes of a class belong to EKS Auto Mode, which has its own VPC CNI.
func isAutoClass(class cloud.ClassRef) bool { return class.Group == eksv1.GroupVersion.Group }

// hasOwnCNI reports whether the VPC CNI is built into the nodes of a class.
func (sn *subnets) hasOwnCNI(class cloud.ClassRef) bool { return sn.builtIn && isAutoClass(class) }

// knows reports whether it is known what the nodes of a class take from subnets.
func (sn *subnets) knows(class cloud.ClassRef) bool { return sn.cni != nil || sn.hasOwnCNI(class) }

// cniOf returns the VPC CNI of a node of a class that is known.
func (sn *subnets) cniOf(class cloud.ClassRef) facts.CNI {
	if sn.hasOwnCNI(class) {
		return facts.AutoModeCNI(sn.pods.byClass[class].Single, sn.customized(class))
	}
	cni := *sn.cni
	cni.CustomNetwork, cni.PodENI = sn.customized(class), cni.PodENI && !isAutoClass(class)
	return cni
}

// idsOf returns the IDs of a class's subnets; nil if the subnets, or what nodes take from them, are unknown.
func (sn *subnets) idsOf(class cloud.ClassRef) (out []string) {
	if !sn.knows(class) {
		return nil
	}
	for _, x := range sn.byClass[class] {
		out = append(out, x.ID)
	}
	slices.Sort(out)
	return out
}

// address returns the types with the addresses that their nodes take from the subnets of a class and with the number
// of their pods that would have no address, and without branch interfaces if the VPC CNI has no security groups for
// pods.
func (sn *subnets) address(class cloud.ClassRef, types []model.InstanceType) []model.InstanceType {
	if !sn.knows(class) {
		return types
	}
	cni, auto, noSubnets := sn.cniOf(class), isAutoClass(class), len(sn.byClass[class]) == 0
	type size struct { // what Steps depends on: many types share it
		enis, each, most, branches int
		prefixes, none             bool
		pods                       int64
	}
	known := map[size][]model.AddressStep{}
	out := slices.Clone(types)
	for i := range out {
		t, ok := facts.Lookup(out[i].Name)
		if !ok {
			continue
		}
		if out[i].Capacity[model.PrivateIPv4] > 0 {
			t = t.OnWindows()
		}
		if cni.Branches(t) == 0 {
			out[i].Capacity[model.PodENI], out[i].Allocatable[model.PodENI] = 0, 0
		}
		if !auto && out[i].Capacity[model.PrivateIPv4] == 0 {
			out[i].Unaddressed = int64(cni.Unaddressed(t, int(out[i].Capacity[model.Pods]), sn.host))
		}
		if noSubnets {
			continue
		}
		at := size{
			cni.ENIs(t), t.IPv4PerENI, cni.PodAddresses(t), cni.Branches(t), cni.Prefixes(t), t.NoENIs(),
			out[i].Capacity[model.Pods],
		}
		if known[at] == nil {
			for _, s := range cni.Steps(t, int(at.pods)) {
				known[at] = append(known[at], model.AddressStep{Pods: int64(s.Pods), Addresses: int64(s.Total)})
			}
		}
		out[i].Addresses = known[at]
		// Without free blocks, nodes of EKS Auto Mode get single addresses (EKS user guide, "auto-networking").
		out[i].SingleAddresses = !at.prefixes || at.none || sn.hasOwnCNI(class)
	}
	return out
}

// readings returns the newest reading of each subnet, by ID. Scattered is 0 where all nodes can use such addresses.
func (sn *subnets) readings() map[string]cloud.Subnet {
	seen, single := map[string]cloud.Subnet{}, map[string]bool{}
	for class, list := range sn.byClass {
		if !sn.knows(class) {
			continue
		}
		own := sn.hasOwnCNI(class)
		if own {
			list = slices.Concat(list, sn.pods.byClass[class].Subnets)
		}
		for _, x := range list {
			known, ok := seen[x.ID]
			single[x.ID] = own && (single[x.ID] || !ok)
			if !ok || cmp.Or(x.At.Compare(known.At), cmp.Compare(x.Scattered, known.Scattered)) > 0 {
				seen[x.ID] = x
			}
		}
	}
	if len(seen) > 0 && sn.cni != nil && sn.cni.CustomNetwork {
		for id, x := range sn.pods.subnets {
			seen[id], single[id] = x, false
		}
	}
	for id, x := range seen {
		if sn.cni == nil || !sn.cni.PrefixDelegation || single[id] {
			x.Scattered = 0
			seen[id] = x
		}
	}
	return seen
}

// render returns the subnets by ID, less the addresses that nodes are about to take and that the cloud's numbers do
// not include yet.
func (sn *subnets) render(catalogs map[cloud.ClassRef]catalog) []model.Subnet {
	seen := sn.readings()
	if len(seen) == 0 {
		return nil
	}
	var out []model.Subnet
	oldest := seen[slices.Sorted(maps.Keys(seen))[0]].At
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		x := seen[id]
		out = append(out, model.Subnet{
			ID: id, Zone: x.Zone, CIDR: x.CIDR, Free: x.Free - x.Scattered, Scattered: x.Scattered,
		})
		if x.At.Before(oldest) {
			oldest = x.At
		}
	}
	if oldest.After(sn.changed.Add(settling)) {
		sn.earlier = nil
	}
	for _, m := range sn.nodes.ordered {
		if m.claim != nil && !translate.Terminating(m.claim) && !m.settledBy(oldest) {
			sn.reserve(m, catalogs, seen, out)
		}
	}
	return out
}

// reserve subtracts the addresses that a young node is about to take from the subnets in which it may be launched.
func (sn *subnets) reserve(m *node, catalogs map[cloud.ClassRef]catalog, seen map[string]cloud.Subnet,
	out []model.Subnet,
) {
	class := ClassRef(m.claim.Spec.NodeClassRef)
	pool := model.Pool{Subnets: sn.idsOf(class)}
	if sn.customized(class) {
		pool.Subnets, _ = sn.podSubnetsOf(class, m.claim.Labels, m.claim.Annotations,
			func(string) bool { return true })
	}
	pods := m.claim.Spec.Resources.Requests.Pods().Value()
	most := int64(0)
	for _, name := range valuesOf(&m.base, m.base.Type, model.LabelInstanceType) {
		types := catalogs[class].types
		i, ok := slices.BinarySearchFunc(types, name,
			func(t model.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
		if ok {
			most = max(most, sn.takes(class, &types[i], pods))
		}
	}
	for _, zone := range valuesOf(&m.base, m.base.Zone, model.LabelZone) {
		if i := rules.MostFree(&pool, zone, out); i >= 0 && !m.settledBy(seen[out[i].ID].At) {
			out[i].Free -= most
		}
	}
}

// takes returns how many addresses a young node of a type takes for the given number of pods. When the VPC CNI is
// reconfigured to keep fewer addresses, a node releases its surplus only later.
func (sn *subnets) takes(class cloud.ClassRef, it *model.InstanceType, pods int64) int64 {
	most := it.AddressesFor(pods)
	if t, ok := facts.Lookup(it.Name); ok && !sn.hasOwnCNI(class) {
		for _, c := range sn.earlier {
			most = max(most, int64(c.FromPodSubnet(t, c.Holding(t, int(pods), int(it.Capacity[model.Pods])))))
		}
	}
	return most
}

// settledBy reports whether numbers read at a time include all addresses that a node took for the pods it was
// launched for. On a busy cluster they arrive long after the node is ready.
func (m *node) settledBy(at time.Time) bool {
	if m.base.State != model.Initialized || !at.After(m.base.Initialized.Add(settling)) {
		return false
	}
	arrived := int64(len(m.pods)) >= m.claim.Spec.Resources.Requests.Pods().Value()
	return arrived && at.After(m.full.LastPodEvent.Add(settling)) || at.After(m.base.Initialized.Add(patience))
}

// valuesOf returns the label's value on a node that exists, or the possible values for a node in flight.
func valuesOf(n *model.Node, value, key string) []string {
	if value != "" {
		return []string{value}
	}
	if r, ok := n.Labels.Get(key); ok && !r.Complement {
		return r.Values
	}
	return nil
}
