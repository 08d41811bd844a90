package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/vpccni"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// customNetwork is the environment of the VPC CNI under custom networking, with the zone as the ENIConfig's name.
func customNetwork(version int) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", Value: "true"},
		{Name: "ENI_CONFIG_LABEL_DEF", Value: model.LabelZone},
	}
}

func eniConfig(name, subnet string, version int) *vpccni.ENIConfig {
	c := &vpccni.ENIConfig{ObjectMeta: meta(name, version)}
	c.Namespace, c.Generation, c.Spec.Subnet = "", int64(version), subnet
	return c
}

// Under custom networking the subnets of the nodes' ENIConfigs limit a pool. A zone without a usable ENIConfig gets
// no node, and a pool without any is not ready; both messages name the field to correct.
func TestPodsTakeAddressesOfTheirENIConfigsSubnet(t *testing.T) {
	w, c := fresh()
	w.Update(poolOf("p", 1))
	w.SetCatalog(class, m5Large(), "")
	w.SetSubnets(class, []cloud.Subnet{
		{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}, {ID: "s-2", Zone: "z2", Free: 50, At: c.Now()},
	})
	w.Update(awsNode(2, customNetwork(2)...))
	if n := w.CNI().ReservedENIs(); n != 1 {
		t.Errorf("%d interfaces hold no pods, want 1", n)
	}
	says := func(notReady string, subnets []string, problems ...string) {
		t.Helper()
		s := w.Snapshot()
		_, got := w.PodNetworkProblems("p")
		if p := &s.Pools[0]; !strings.Contains(p.NotReady, notReady) || (p.NotReady == "") != (notReady == "") ||
			p.Subnets == nil || !slices.Equal(p.Subnets, subnets) {
			t.Errorf("subnets %v, not ready: %q; want %v and %q", p.Subnets, p.NotReady, subnets, notReady)
		}
		if len(got) != len(problems) {
			t.Fatalf("problems %q, want %q", got, problems)
		}
		for i := range got {
			if !strings.Contains(got[i], problems[i]) {
				t.Errorf("problem %q, want %q", got[i], problems[i])
			}
		}
	}
	says(`ENIConfig "z", that of nodes in z, does not exist; create it with spec.subnet`, nil, `ENIConfig "z"`,
		`ENIConfig "z2"`)
	w.Update(eniConfig("z", "pods-1", 3))
	w.Update(eniConfig("z2", "pods-2", 4))
	if ids := w.PodSubnets(); !slices.Equal(ids, []string{"pods-1", "pods-2"}) {
		t.Errorf("the cloud is to be asked for %v", ids)
	}
	says("the cloud was not asked yet", nil)
	w.SetPodSubnets([]string{"pods-1", "pods-2"}, []cloud.Subnet{{ID: "pods-1", Zone: "z", Free: 40, At: c.Now()}})
	says("", []string{"pods-1"}, `spec.subnet of ENIConfig "z2" is "pods-2", which does not exist`)
	w.SetPodSubnets([]string{"pods-1", "pods-2"}, []cloud.Subnet{
		{ID: "pods-1", Zone: "z", Free: 40, At: c.Now()}, {ID: "pods-2", Zone: "z", Free: 40, At: c.Now()},
	})
	says("", []string{"pods-1"}, `pods-2 in z, but nodes in z2 select it`)
	w.SetPodSubnets([]string{"pods-1", "pods-2"}, []cloud.Subnet{
		{ID: "pods-1", Zone: "z", Free: 40, At: c.Now()}, {ID: "pods-2", Zone: "z2", Free: 30, At: c.Now()},
	})
	says("", []string{"pods-1", "pods-2"})

	// The first interface is not in the pods' subnet, which leaves at most two interfaces of ten addresses.
	steps := []model.AddressStep{{Pods: 0, Addresses: 10}, {Pods: 18, Addresses: 20}}
	if s := w.Snapshot(); !slices.Equal(s.Pools[0].Types[0].Addresses, steps) || s.Pools[0].Types[0].Unaddressed != 9 {
		t.Errorf("steps %v, %d pods without an address", s.Pools[0].Types[0].Addresses, s.Pools[0].Types[0].Unaddressed)
	}
	w.Update(inFlight("5")) // in either zone
	free := map[string]int64{}
	for _, x := range w.Snapshot().Subnets {
		free[x.ID] = x.Free
	}
	if free["pods-1"] != 20 || free["pods-2"] != 10 || free["s-1"] != 100 || free["s-2"] != 50 {
		t.Errorf("beside a node in flight %v are free", free)
	}
	w.Delete(eniConfig("z", "pods-1", 3))
	elsewhere := poolOf("p", 5)
	for _, in := range []struct {
		operator corev1.NodeSelectorOperator
		zone     string
	}{{corev1.NodeSelectorOpIn, "z2"}, {corev1.NodeSelectorOpNotIn, "z"}} {
		np := elsewhere.DeepCopy()
		np.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: model.LabelZone, Operator: in.operator, Values: []string{in.zone}},
		}
		if got := zonesOf(np); got("z") || !got("z2") {
			t.Errorf("%s %s allows z: %t, z2: %t", in.operator, in.zone, got("z"), got("z2"))
		}
	}
	says("", []string{"pods-2"}, `ENIConfig "z"`)
}

// A label of the template names the ENIConfig; nodes without the label use the one called default. EKS Auto Mode has
// none.
func TestWhichENIConfigNodesHave(t *testing.T) {
	w, c := fresh()
	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: "default"}
	for _, ref := range []cloud.ClassRef{class, auto} {
		w.SetCatalog(ref, m5Large(), "")
		w.SetSubnets(ref, []cloud.Subnet{{ID: "s-1", Zone: "z", Free: 100, At: c.Now()}})
	}
	w.Update(awsNode(2, corev1.EnvVar{Name: "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", Value: "true"}))
	labelled, plain, autoPool := poolOf("labelled", 1), poolOf("plain", 1), poolOf("auto", 1)
	labelled.Spec.Template.Labels = map[string]string{"k8s.amazonaws.com/eniConfig": "a"}
	autoPool.Spec.Template.Spec.NodeClassRef.Group, autoPool.Spec.Template.Spec.NodeClassRef.Kind = auto.Group, auto.Kind
	autoPool.Spec.Template.Spec.NodeClassRef.Name = auto.Name
	w.Update(labelled)
	w.Update(plain)
	w.Update(autoPool)
	w.Update(eniConfig("a", "pods-a", 3))
	w.SetPodSubnets([]string{"pods-a"}, []cloud.Subnet{{ID: "pods-a", Zone: "z", Free: 9, At: c.Now()}})
	for _, p := range w.Snapshot().Pools {
		want := map[string][]string{"labelled": {"pods-a"}, "plain": nil, "auto": {"s-1"}}[p.Name]
		if !slices.Equal(p.Subnets, want) {
			t.Errorf("pool %s takes addresses of %v, want %v", p.Name, p.Subnets, want)
		}
	}
	if _, got := w.PodNetworkProblems("plain"); len(got) != 1 || !strings.Contains(got[0], "set ENI_CONFIG_LABEL_DEF") {
		t.Errorf("of a pool whose nodes name none: %q", got)
	}
}

// The subnets that a NodeClass selects for pods limit its pools. A zone without one gets no node. Elsewhere than in EKS's
// own VPC CNI the terms cannot be fulfilled.
func TestPodsTakeAddressesOfTheirNodeClasssPodSubnets(t *testing.T) {
	c := clock.NewVirtual(noon.Add(time.Minute))
	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: "isolated"}
	np := poolOf("auto", 1)
	ref := np.Spec.Template.Spec.NodeClassRef
	ref.Group, ref.Kind, ref.Name = auto.Group, auto.Kind, auto.Name
	stage := func(builtIn bool, pods ...cloud.Subnet) *State {
		w := New(Options{Clock: c, BuiltInCNI: builtIn})
		w.Update(np)
		w.SetPodNetwork(auto, cloud.PodNetwork{Custom: true, Subnets: pods})
		w.SetSubnets(auto, []cloud.Subnet{
			{ID: "s-1", Zone: "z", Free: 9, At: c.Now()}, {ID: "s-2", Zone: "z2", Free: 9, At: c.Now()},
		})
		w.SetCatalog(auto, m5LargeOf(110), "")
		return w
	}
	for say, w := range map[string]*State{
		"selects no subnet in z2, where":   stage(true, cloud.Subnet{ID: "pods-1", Zone: "z", Free: 200, At: c.Now()}),
		"needs the VPC CNI that EKS build": stage(false, cloud.Subnet{ID: "pods-1", Zone: "z", Free: 200, At: c.Now()}),
	} {
		reason, got := w.PodNetworkProblems("auto")
		if reason != "PodSubnetUnusable" || len(got) != 1 ||
			!strings.Contains(got[0], `spec.podSubnetSelectorTerms of NodeClass "isolated" `+say) {
			t.Errorf("%s: %s %q", say, reason, got)
		}
	}
	if p := stage(false).Snapshot().Pools[0]; !strings.Contains(p.NotReady, "needs the VPC CNI") {
		t.Errorf("without EKS's CNI the pool is not ready: %q", p.NotReady)
	}
	w := stage(true, cloud.Subnet{ID: "pods-1", Zone: "z", Free: 200, Scattered: 100, At: c.Now()},
		cloud.Subnet{ID: "pods-2", Zone: "z2", Free: 100, At: c.Now()})
	if reason, got := w.PodNetworkProblems("auto"); len(got) > 0 {
		t.Errorf("%s %q", reason, got)
	}
	// The first interface is in the node's subnet; the second takes an address of its own and prefixes.
	p := w.Snapshot().Pools[0]
	steps := []model.AddressStep{{Pods: 0, Addresses: 17}, {Pods: 16, Addresses: 33}}
	if got := p.Types[0].Addresses; !slices.Equal(p.Subnets, []string{"pods-1", "pods-2"}) || p.NotReady != "" ||
		len(got) < 2 || !slices.Equal(got[:2], steps) {
		t.Errorf("subnets %v, steps %v, not ready: %q", p.Subnets, got, p.NotReady)
	}
	claim := inFlight("5") // in either zone
	claim.Spec.NodeClassRef = ref
	w.Update(claim)
	free := map[string]int64{}
	for _, x := range w.Snapshot().Subnets {
		free[x.ID] = x.Free
	}
	if free["pods-1"] != 167 || free["pods-2"] != 67 || free["s-1"] != 9 || free["s-2"] != 9 {
		t.Errorf("beside a node in flight %v are free", free)
	}
}

// If no allowed type's interfaces can hold a warm target, a message names the variable and its maximum. There is none
// for a pool with a type that can hold it, nor for pools of EKS Auto Mode.
func TestWarmTargetsThatNoTypeCanKeep(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	autoPool := poolOf("auto", 1)
	autoPool.Spec.Template.Spec.NodeClassRef.Group = eksv1.GroupVersion.Group
	w.Update(autoPool)
	auto := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: "K", Name: "c"}
	large := m5Large()
	huge := append(m5Large(), m5Large()...)
	huge[1].Name = "m5.xlarge" // 4 interfaces of 15 addresses
	target := func(value string, version int) {
		w.Update(awsNode(version, corev1.EnvVar{Name: "WARM_IP_TARGET", Value: value}))
	}
	w.SetCatalog(class, large, "")
	w.SetCatalog(auto, large, "")
	if text := w.UnkeptTarget("p"); text != "" {
		t.Errorf("without the VPC CNI: %q", text)
	}
	target("27", 2)
	if text := w.UnkeptTarget("p"); text != "" {
		t.Errorf("27 of 27 addresses: %q", text)
	}
	target("28", 3)
	if text := w.UnkeptTarget("p"); !strings.Contains(text, "WARM_IP_TARGET=28") || !strings.Contains(text, "at most 27") {
		t.Errorf("28 of 27 addresses: %q", text)
	}
	if text := w.UnkeptTarget("auto"); text != "" {
		t.Errorf("nodes of EKS Auto Mode: %q", text)
	}
	w.SetCatalog(class, huge, "")
	if text := w.UnkeptTarget("p"); text != "" {
		t.Errorf("m5.xlarge can keep it: %q", text)
	}
	target("500", 4)
	if text := w.UnkeptTarget("p"); !strings.Contains(text, "m5.xlarge, which holds most, can keep 56") {
		t.Errorf("500 of 56 addresses: %q", text)
	}
}
