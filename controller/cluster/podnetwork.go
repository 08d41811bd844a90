package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/vpccni"
	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/rules"
)

// podNetwork is the custom networking of the VPC CNI: the ENIConfigs, and what the cloud says about their subnets. In
// EKS Auto Mode, node classes take the place of ENIConfigs.
type podNetwork struct {
	configs table[*vpccni.ENIConfig]
	subnets map[string]cloud.Subnet // that exist
	asked   map[string]bool         // IDs that the cloud was queried for
	byClass map[cloud.ClassRef]cloud.PodNetwork
}

// customized reports whether custom networking applies to the nodes of a class.
func (sn *subnets) customized(class cloud.ClassRef) bool {
	if isAutoClass(class) {
		return sn.pods.byClass[class].Custom
	}
	return sn.cni != nil && sn.cni.CustomNetwork
}

// SetPodNetwork sets how a class of EKS Auto Mode determines the addresses of pods.
func (s *State) SetPodNetwork(class cloud.ClassRef, n cloud.PodNetwork) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.subnets.pods.byClass[class]
	if s.subnets.pods.byClass == nil {
		s.subnets.pods.byClass = map[cloud.ClassRef]cloud.PodNetwork{}
	}
	s.subnets.pods.byClass[class] = n
	if before.Single != n.Single || before.Custom != n.Custom {
		s.pools.readdress()
		s.poke()
	} else if !slices.EqualFunc(before.Subnets, n.Subnets, sameSubnet) {
		s.poke()
	}
}

// sameSubnet reports whether two readings of subnets say the same.
func sameSubnet(a, b cloud.Subnet) bool {
	return a.ID == b.ID && a.Free == b.Free && a.Scattered == b.Scattered && a.Zone == b.Zone
}

// CNI returns how the VPC CNI assigns addresses to pods; nil if unknown.
func (s *State) CNI() *facts.CNI {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subnets.cni
}

// PodSubnets returns the IDs of the subnets of the ENIConfigs, sorted; none without custom networking.
func (s *State) PodSubnets() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subnets.cni == nil || !s.subnets.cni.CustomNetwork {
		return nil
	}
	for _, c := range s.subnets.pods.configs.live {
		ids = append(ids, c.Spec.Subnet)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SetPodSubnets sets which of the subnets with these IDs exist, and how many addresses are free in them.
func (s *State) SetPodSubnets(ids []string, found []cloud.Subnet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, before := &s.subnets.pods, s.subnets.pods
	p.asked, p.subnets = map[string]bool{}, map[string]cloud.Subnet{}
	for _, id := range ids {
		p.asked[id] = true
	}
	for _, x := range found {
		p.subnets[x.ID] = x
	}
	if !maps.Equal(before.asked, p.asked) || !maps.EqualFunc(before.subnets, p.subnets, sameSubnet) {
		s.poke()
	}
}

// podSubnet returns the subnet for the pods of nodes with these labels and annotations in a zone, or what is wrong
// with their ENIConfig; neither until the cloud has been queried.
func (sn *subnets) podSubnet(zone string, labels, annotations map[string]string) (id, problem string) {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[model.LabelZone] = zone
	name := sn.cni.ENIConfig(labels, annotations)
	c := sn.pods.configs.live[clusterKey(name)]
	if c == nil {
		how := fmt.Sprintf("create it with spec.subnet, the ID of a subnet in %s", zone)
		if name == facts.DefaultENIConfig {
			how = fmt.Sprintf("name the ENIConfig of nodes by their label %s, or set ENI_CONFIG_LABEL_DEF of DaemonSet "+
				"kube-system/aws-node to the label that does, such as %s", sn.cni.ENIConfigLabel, model.LabelZone)
		}
		return "", fmt.Sprintf("ENIConfig %q, that of nodes in %s, does not exist; %s", name, zone, how)
	}
	switch x, exists := sn.pods.subnets[c.Spec.Subnet]; {
	case !sn.pods.asked[c.Spec.Subnet]:
		return "", ""
	case !exists:
		return "", fmt.Sprintf("spec.subnet of ENIConfig %q is %q, which does not exist in the region; name a subnet in %s",
			name, c.Spec.Subnet, zone)
	case x.Zone != zone:
		return "", fmt.Sprintf("spec.subnet of ENIConfig %q is %s in %s, but nodes in %s select it, and instances take "+
			"interfaces in their own zone only; name a subnet in %s", name, x.ID, x.Zone, zone, zone)
	}
	return c.Spec.Subnet, ""
}

// podSubnetsOf returns the IDs of the subnets that give addresses to pods of nodes with these labels and annotations,
// in all zones of their class that in reports, and what is wrong with their ENIConfigs or their NodeClass.
func (sn *subnets) podSubnetsOf(class cloud.ClassRef, labels, annotations map[string]string, in func(zone string) bool,
) (ids, problems []string) {
	ids = []string{}
	auto := isAutoClass(class)
	if auto && !sn.builtIn {
		return ids, []string{fmt.Sprintf("spec.podSubnetSelectorTerms of %s %q needs the VPC CNI that EKS builds into nodes "+
			"of Auto Mode, which this cluster does not have; remove it together with spec.podSecurityGroupSelectorTerms",
			class.Kind, class.Name)}
	}
	zones := map[string]bool{}
	for _, x := range sn.byClass[class] {
		if in(x.Zone) {
			zones[x.Zone] = true
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		var found []string
		var problem string
		if auto {
			found, problem = sn.autoSubnets(class, zone)
		} else if id, p := sn.podSubnet(zone, labels, annotations); id != "" {
			found, problem = []string{id}, p
		} else {
			problem = p
		}
		ids = append(ids, found...)
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), problems
}

// autoSubnets returns the IDs of the subnets for the pods of a NodeClass's nodes in a zone, or why there are none.
func (sn *subnets) autoSubnets(class cloud.ClassRef, zone string) (ids []string, problem string) {
	for _, x := range sn.pods.byClass[class].Subnets {
		if x.Zone == zone {
			ids = append(ids, x.ID)
		}
	}
	if len(ids) == 0 {
		problem = fmt.Sprintf("spec.podSubnetSelectorTerms of %s %q selects no subnet in %s, where spec.subnetSelectorTerms "+
			"selects one for nodes; select a subnet there, too, or none for nodes", class.Kind, class.Name, zone)
	}
	return ids, problem
}

// networkOf returns the subnets that limit the launches of a NodePool; nil if they are unknown. If it has none,
// notReady says why.
func (sn *subnets) networkOf(np *karpv1.NodePool) (ids []string, notReady string) {
	class := ClassRef(np.Spec.Template.Spec.NodeClassRef)
	if !sn.customized(class) || len(sn.byClass[class]) == 0 {
		return sn.idsOf(class), ""
	}
	ids, problems := sn.podSubnetsOf(class, templateLabels(np), np.Spec.Template.Annotations, zonesOf(np))
	if len(ids) == 0 {
		none := "the cloud was not asked yet for the subnets of its ENIConfigs"
		if isAutoClass(class) {
			none = "spec.subnetSelectorTerms of its NodeClass selects no subnet in a zone that it allows"
		}
		return ids, cmp.Or(append(problems, none)...)
	}
	return ids, ""
}

// templateLabels returns the labels that a NodePool's template determines for all its nodes.
func templateLabels(np *karpv1.NodePool) map[string]string {
	out := maps.Clone(np.Spec.Template.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for _, r := range np.Spec.Template.Spec.Requirements {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			out[r.Key] = r.Values[0]
		}
	}
	return out
}

// zonesOf returns a function that reports whether a NodePool allows a zone.
func zonesOf(np *karpv1.NodePool) func(zone string) bool {
	return func(zone string) bool {
		for _, r := range np.Spec.Template.Spec.Requirements {
			if r.Key == model.LabelZone && (r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, zone) ||
				r.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(r.Values, zone)) {
				return false
			}
		}
		label, set := np.Spec.Template.Labels[model.LabelZone]
		return !set || label == zone
	}
}

// PodNetworkProblems returns what is wrong with the ENIConfigs of a NodePool's nodes or with their NodeClass, by zone,
// or why their pods on Windows get no addresses; reason is one word for it.
func (s *State) PodNetworkProblems(pool string) (reason string, problems []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	np := s.objects.pools.live[clusterKey(pool)]
	if np == nil {
		return "", nil
	}
	class := ClassRef(np.Spec.Template.Spec.NodeClassRef)
	if text := s.subnets.windows.lacks(s.pools.catalogs[class].types); text != "" {
		return "WindowsIPAMDisabled", []string{text}
	}
	if !s.subnets.customized(class) {
		return "", nil
	}
	reason = "ENIConfigUnusable"
	if isAutoClass(class) {
		reason = "PodSubnetUnusable"
	}
	_, problems = s.subnets.podSubnetsOf(class, templateLabels(np), np.Spec.Template.Annotations, zonesOf(np))
	return reason, problems
}

// UnkeptTarget describes a warm target of the VPC CNI that none of the types allowed by a NodePool can keep; "" if
// one can, or it is unknown.
func (s *State) UnkeptTarget(pool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	np := s.objects.pools.live[clusterKey(pool)]
	if np == nil || s.subnets.cni == nil {
		return ""
	}
	class := ClassRef(np.Spec.Template.Spec.NodeClassRef)
	if isAutoClass(class) {
		return ""
	}
	all := s.pools.catalogs[class].types
	unkept := func(t model.InstanceType) (variable string, value, most int) {
		if of, ok := facts.Lookup(t.Name); ok && t.Capacity[model.PrivateIPv4] == 0 {
			return s.subnets.cni.Unkept(of)
		}
		return "", 0, 0
	}
	if !slices.ContainsFunc(all, func(t model.InstanceType) bool { variable, _, _ := unkept(t); return variable != "" }) {
		return ""
	}
	p, _ := s.names.Pool(np, translate.PoolState{Now: s.clock.Now(), Types: all}) // nothing is known of an invalid pool
	count, target, best, name := 0, "", -1, ""
	for t := range rules.NewView(&p, nil).Eligible.All() {
		variable, value, most := unkept(all[t])
		if variable == "" {
			return ""
		}
		count++
		if most > best {
			target, best, name = fmt.Sprintf("%s=%d", variable, value), most, all[t].Name
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s of DaemonSet kube-system/aws-node: none of %s that the NodePool allows can keep that; %s, "+
		"which holds most, can keep %d. Each node takes all that its interfaces hold from its subnet; set it to at "+
		"most %d", target, reason.Count(count, "instance type"), name, best, best)
}
