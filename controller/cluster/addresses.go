package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// cniNamespace is that of the VPC CNI's DaemonSet.
const cniNamespace = "kube-system"

// settling is how long a node may take, once it is ready, until it has the addresses for the pods that it was launched
// for.
const settling = 30 * time.Second

// subnets are those of the node classes with their free addresses, and what nodes take of them.
type subnets struct {
	*hub
	objects *objects
	nodes   *nodes
	byClass map[cloud.ClassRef][]cloud.Subnet
	cni     *facts.CNI // nil if no DaemonSet aws-node configures it
}

// SetSubnets says in which subnets a node class launches and how many addresses are free in them. The slice is kept: do
// not change it.
func (s *State) SetSubnets(class cloud.ClassRef, list []cloud.Subnet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.subnets.byClass[class]
	s.subnets.byClass[class] = list
	if !slices.EqualFunc(before, list, func(a, b cloud.Subnet) bool { return a.ID == b.ID }) {
		s.pools.readdress()
	}
	if !slices.EqualFunc(before, list, func(a, b cloud.Subnet) bool { return a.ID == b.ID && a.Free == b.Free }) {
		s.poke()
	}
}

// readCNI reads the configuration of the VPC CNI from its DaemonSet.
func (sn *subnets) readCNI() (changed bool) {
	var now *facts.CNI
	for _, ds := range sn.objects.daemonSets.live {
		if ds.Namespace == cniNamespace && ds.Name == facts.CNIContainer && ds.DeletionTimestamp == nil {
			c, _ := facts.ReadCNI(environment(ds.Spec.Template.Spec.Containers)) // the nodes' own CNI says what is wrong
			now = &c
		}
	}
	changed = (now == nil) != (sn.cni == nil) || now != nil && *now != *sn.cni
	sn.cni = now
	return changed
}

// environment returns the variables of the container aws-node.
func environment(containers []corev1.Container) map[string]string {
	out := map[string]string{}
	for i := range containers {
		if c := &containers[i]; c.Name == facts.CNIContainer {
			for _, v := range c.Env {
				out[v.Name] = v.Value
			}
		}
	}
	return out
}

// idsOf returns the IDs of a class's subnets; nil if they are not known.
func (sn *subnets) idsOf(class cloud.ClassRef) (out []string) {
	for _, x := range sn.byClass[class] {
		out = append(out, x.ID)
	}
	slices.Sort(out)
	return out
}

// address returns the types with what their nodes take from the subnets of a class.
func (sn *subnets) address(class cloud.ClassRef, types []model.InstanceType) []model.InstanceType {
	if sn.cni == nil || len(sn.byClass[class]) == 0 {
		return types
	}
	type size struct {
		enis, each int
		prefixes   bool
		pods       int64
	}
	known := map[size][]model.AddressStep{}
	out := slices.Clone(types)
	for i := range out {
		t, ok := facts.Lookup(out[i].Name)
		if !ok {
			continue
		}
		at := size{sn.cni.ENIs(t), t.IPv4PerENI, sn.cni.Prefixes(t), out[i].Capacity[model.Pods]}
		if known[at] == nil {
			for _, s := range sn.cni.Steps(t, int(at.pods)) {
				known[at] = append(known[at], model.AddressStep{Pods: int64(s.Pods), Addresses: int64(s.Total)})
			}
		}
		out[i].Addresses = known[at]
	}
	return out
}

// render returns the subnets by ID, less what nodes are about to take that the cloud's numbers do not include yet.
func (sn *subnets) render(catalogs map[cloud.ClassRef]catalog) []model.Subnet {
	if len(sn.byClass) == 0 {
		return nil
	}
	seen := map[string]cloud.Subnet{}
	for _, list := range sn.byClass {
		for _, x := range list {
			if known, ok := seen[x.ID]; !ok || x.At.After(known.At) {
				seen[x.ID] = x
			}
		}
	}
	var out []model.Subnet
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, model.Subnet{ID: id, Zone: seen[id].Zone, Free: seen[id].Free})
	}
	for _, m := range sn.nodes.ordered {
		if m.claim != nil && !translate.Terminating(m.claim) {
			sn.reserve(m, catalogs, seen, out)
		}
	}
	return out
}

// reserve takes what a young node is about to take from the subnets into which it may be launched.
func (sn *subnets) reserve(m *node, catalogs map[cloud.ClassRef]catalog, seen map[string]cloud.Subnet,
	out []model.Subnet,
) {
	class := ClassRef(m.claim.Spec.NodeClassRef)
	pool := model.Pool{Subnets: sn.idsOf(class)}
	pods := m.claim.Spec.Resources.Requests.Pods().Value()
	most := int64(0)
	for _, name := range valuesOf(&m.base, m.base.Type, model.LabelInstanceType) {
		types := catalogs[class].types
		i, ok := slices.BinarySearchFunc(types, name,
			func(t model.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
		if ok {
			most = max(most, types[i].AddressesFor(pods))
		}
	}
	settled := m.base.Initialized.Add(settling)
	for _, zone := range valuesOf(&m.base, m.base.Zone, model.LabelZone) {
		i := rules.MostFree(&pool, zone, out)
		if i >= 0 && (m.base.State != model.Initialized || !seen[out[i].ID].At.After(settled)) {
			out[i].Free -= most
		}
	}
}

// valuesOf returns the value of a label of a node that exists, or those that are possible for one in flight.
func valuesOf(n *model.Node, value, key string) []string {
	if value != "" {
		return []string{value}
	}
	if r, ok := n.Labels.Get(key); ok && !r.Complement {
		return r.Values
	}
	return nil
}
