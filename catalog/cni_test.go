package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/catalog"
)

// Rows from amazon-vpc-cni-k8s's documentation of interfaces and addresses ("ENI and IP target").
func TestWhatANodeHoldsOfItsSubnet(t *testing.T) {
	usual := catalog.DefaultCNI()
	for _, x := range []struct {
		name        string
		cni         catalog.CNI
		pods        int
		enis, total int // interfaces, and addresses for pods
	}{
		{"t3.small", usual, 0, 1, 3},
		{"t3.small", usual, 5, 3, 9},
		{"t3.small", usual, 9, 3, 9},
		{"t3.small", catalog.CNI{WarmIP: 1, MinimumIP: 1}, 0, 1, 1},
		{"t3.small", catalog.CNI{WarmIP: 1, MinimumIP: 1}, 5, 2, 6},
		{"t3.small", catalog.CNI{WarmIP: 1, MinimumIP: 1}, 9, 3, 9},
		{"t3.small", catalog.CNI{WarmIP: 2, MinimumIP: 5}, 0, 2, 5},
		{"t3.small", catalog.CNI{WarmIP: 2, MinimumIP: 5}, 5, 3, 7},
		{"p3dn.24xlarge", usual, 3, 2, 98},
		{"p3dn.24xlarge", usual, 95, 3, 147},
		{"p3dn.24xlarge", catalog.CNI{WarmIP: 5, MinimumIP: 10}, 7, 1, 12},
		{"p3dn.24xlarge", catalog.CNI{WarmIP: 5, MinimumIP: 10}, 45, 2, 50},
		{"m5.large", catalog.CNI{}, 5, 1, 9},
		{"m5.large", catalog.CNI{}, 10, 2, 18},
		{"m5.4xlarge", usual, 10, 2, 58},
		{"m5.4xlarge", catalog.CNI{WarmENI: 1, MaxENI: 1}, 10, 1, 29},
	} {
		typ, ok := catalog.Lookup(x.name)
		if !ok {
			t.Fatalf("no type %s", x.name)
		}
		got := x.cni.Holding(typ, x.pods, int(catalog.MaxPods(typ, 0, false)))
		if got.ENIs != x.enis || got.Addresses != x.total {
			t.Errorf("%s with %d pods under %+v holds %+v, want %d interfaces and %d addresses", x.name, x.pods, x.cni, got,
				x.enis, x.total)
		}
	}
}

// Rows from its documentation of prefixes ("Prefix and IP target"), as its code computes them.
func TestWhatANodeHoldsInPrefixes(t *testing.T) {
	prefixes := func(warm, ip, minimum int) catalog.CNI {
		return catalog.CNI{PrefixDelegation: true, WarmPrefix: warm, WarmIP: ip, MinimumIP: minimum}
	}
	for _, x := range []struct {
		name           string
		cni            catalog.CNI
		maxPods, pods  int
		enis, prefixes int
	}{
		{"t3.small", prefixes(1, 0, 0), 110, 0, 1, 1},
		{"t3.small", prefixes(1, 0, 0), 110, 5, 1, 2},
		{"t3.small", prefixes(1, 0, 0), 110, 17, 1, 3},
		{"t3.small", prefixes(1, 0, 0), 110, 58, 2, 5},
		{"t3.small", prefixes(0, 1, 1), 110, 58, 2, 4},
		{"t3.small", prefixes(0, 7, 20), 110, 5, 1, 2},
		{"p3dn.24xlarge", prefixes(1, 0, 0), 737, 95, 1, 7},
		{"p3dn.24xlarge", prefixes(0, 5, 10), 737, 45, 1, 4},
		{"t3.small", prefixes(1, 0, 0), 11, 11, 1, 1}, // growth stops at the kubelet's maximum of pods
		{"m4.large", prefixes(1, 0, 0), 20, 1, 1, 0},  // Xen has no prefixes
	} {
		typ, ok := catalog.Lookup(x.name)
		if !ok {
			t.Fatalf("no type %s", x.name)
		}
		if got := x.cni.Holding(typ, x.pods, x.maxPods); got.ENIs != x.enis || got.Prefixes != x.prefixes {
			t.Errorf("%s with %d pods under %+v holds %+v, want %d interfaces and %d prefixes", x.name, x.pods, x.cni, got,
				x.enis, x.prefixes)
		}
	}
}

func TestATypeOfOnesOwnTakesAnAddressForEachPod(t *testing.T) {
	own := &catalog.Type{Name: "rack", Pods: 110, MaxENIs: 1, IPv4PerENI: 109}
	if got := catalog.DefaultCNI().Holding(own, 7, 110); got.Total() != 8 {
		t.Errorf("with 7 pods it holds %+v, want 8 addresses", got)
	}
}

func TestTheTargetsThatCount(t *testing.T) {
	for want, c := range map[string]catalog.CNI{
		"WARM_ENI_TARGET=1": catalog.DefaultCNI(),
		"WARM_IP_TARGET=2 MINIMUM_IP_TARGET=0 MAX_ENI=3":            {WarmENI: 1, WarmIP: 2, MaxENI: 3},
		"ENABLE_PREFIX_DELEGATION=true WARM_PREFIX_TARGET=1":        {PrefixDelegation: true, WarmENI: 1, WarmPrefix: 1},
		"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true WARM_ENI_TARGET=0": {CustomNetwork: true},
	} {
		if got := strings.Join(c.Targets(), " "); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestTheStepsOfAType(t *testing.T) {
	typ, _ := catalog.Lookup("t3.medium") // 3 interfaces of 6 addresses
	want := []catalog.AddressStep{{Pods: 0, Total: 6}, {Pods: 5, Total: 12}, {Pods: 15, Total: 18}}
	if got := catalog.DefaultCNI().Steps(typ, 17); !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
}

// With security groups for pods a node's trunk takes the place of an interface, and its branches add to the addresses
// of the other interfaces. An m5.large has 3 interfaces of 10 addresses, and 9 branches; no t3 has a trunk.
func TestSecurityGroupsForPods(t *testing.T) {
	c := catalog.DefaultCNI()
	c.PodENI = true
	large, _ := catalog.Lookup("m5.large")
	t3, _ := catalog.Lookup("t3.medium")
	if c.Branches(large) != 9 || c.PodAddresses(large) != 18 || c.Branches(t3) != 0 || c.PodAddresses(t3) != 15 {
		t.Errorf("%d branches and %d addresses, t3.medium %d and %d; want 9 and 18, 0 and 15",
			c.Branches(large), c.PodAddresses(large), c.Branches(t3), c.PodAddresses(t3))
	}
	if c.Unaddressed(large, 29, 2) != 0 || c.Unaddressed(large, 40, 2) != 11 {
		t.Errorf("%d of 29 and %d of 40 pods have no address, want 0 and 11", c.Unaddressed(large, 29, 2),
			c.Unaddressed(large, 40, 2))
	}
	want := []catalog.AddressStep{{Pods: 0, Total: 11}, {Pods: 18, Total: 21}}
	for n := 19; n <= 27; n++ {
		want = append(want, catalog.AddressStep{Pods: n, Total: n + 3})
	}
	if got := c.Steps(large, 29); !slices.Equal(got, want) {
		t.Errorf("it takes %v, want %v", got, want)
	}
	c.CustomNetwork = true
	if c.NoPods(large) != 2 || c.FromPodSubnet(large, c.Holding(large, 5, 20)) != 11 {
		t.Errorf("with custom networking %d interfaces have no pods, %d addresses are from the subnet of the pods",
			c.NoPods(large), c.FromPodSubnet(large, c.Holding(large, 5, 20)))
	}
}

func TestTheEnvironmentOfAWSNode(t *testing.T) {
	got, problems := catalog.ReadCNI(map[string]string{
		"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1", "WARM_IP_TARGET": "5", "MAX_ENI": "2", "OTHER": "x",
	})
	want := catalog.CNI{PrefixDelegation: true, WarmENI: 1, WarmPrefix: 1, WarmIP: 5, MaxENI: 2}
	if got != want || len(problems) > 0 {
		t.Errorf("read %+v, %v, want %+v", got, problems, want)
	}
	got, problems = catalog.ReadCNI(map[string]string{
		"ENABLE_PREFIX_DELEGATION": "yes please", "WARM_ENI_TARGET": "-1", "WARM_IP_TARGET": "many", "MAX_ENI": "0",
		"ENABLE_POD_ENI": "maybe", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "false",
	})
	if got != (catalog.CNI{WarmENI: 1}) || len(problems) != 5 || !strings.HasPrefix(problems[0], `WARM_ENI_TARGET is "-1"`) {
		t.Errorf("of unusable values it read %+v and says %q", got, problems)
	}
}

// Under custom networking the first interface of a node has no pods (Amazon EKS user guide, "Deploy Pods in alternate
// subnets with custom networking"): (3 − 1) × (10 − 1) + 2 pods on an m5.large.
func TestCustomNetworking(t *testing.T) {
	c, problems := catalog.ReadCNI(map[string]string{"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true", "WARM_PREFIX_TARGET": "1"})
	typ, _ := catalog.Lookup("m5.large")
	if len(problems) > 0 || c.PodAddresses(typ) != 18 || catalog.MaxPods(typ, c.NoPods(typ), false) != 20 {
		t.Errorf("%v, %d addresses, %d pods; want 18 and 20", problems, c.PodAddresses(typ),
			catalog.MaxPods(typ, c.NoPods(typ), false))
	}
	want := []catalog.AddressStep{{Pods: 0, Total: 10}, {Pods: 18, Total: 20}}
	if got := c.Steps(typ, 20); !slices.Equal(got, want) {
		t.Errorf("from the subnet of the pods it takes %v, want %v", got, want)
	}
	if got := c.Holding(typ, 10, 20); got != (catalog.Holding{ENIs: 3, Addresses: 18}) {
		t.Errorf("with 10 pods it holds %+v", got)
	}
	c.PrefixDelegation = true
	if got := c.Holding(typ, 10, 110); got.ENIs != 2 || got.Prefixes != 2 || c.PodAddresses(typ) != 18*16 {
		t.Errorf("with prefixes it holds %+v of %d", got, c.PodAddresses(typ))
	}
	if c.MaxENI = 1; c.PodAddresses(typ) != 0 || c.Holding(typ, 3, 20).Total() != 1 {
		t.Errorf("with MAX_ENI=1 it holds %+v", c.Holding(typ, 3, 20))
	}
	if own := (&catalog.Type{Pods: 110, MaxENIs: 1, IPv4PerENI: 109}); c.PodAddresses(own) != 110 {
		t.Errorf("a type of one's own has %d addresses", c.PodAddresses(own))
	}
}

func TestTheENIConfigOfANode(t *testing.T) {
	named := func(env map[string]string, labels, annotations map[string]string) string {
		env["AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG"] = "true"
		c, _ := catalog.ReadCNI(env)
		return c.ENIConfig(labels, annotations)
	}
	const key, zone = "k8s.amazonaws.com/eniConfig", "topology.kubernetes.io/zone"
	none, byZone := map[string]string{}, map[string]string{"ENI_CONFIG_LABEL_DEF": zone}
	for _, x := range []struct{ got, want string }{
		{named(none, map[string]string{zone: "a"}, nil), "default"},
		{named(none, map[string]string{zone: "a", key: "b"}, nil), "b"},
		{named(none, map[string]string{key: "b"}, map[string]string{key: "c"}), "c"},
		{named(byZone, map[string]string{zone: "a", key: "b"}, nil), "a"},
		{named(map[string]string{"ENI_CONFIG_ANNOTATION_DEF": "eni"}, nil, map[string]string{"eni": "d"}), "d"},
	} {
		if x.got != x.want {
			t.Errorf("it is %q, want %q", x.got, x.want)
		}
	}
}

// A node of m5.large holds 27 addresses on three interfaces, or 27 prefixes of 16.
func TestWarmTargetsThatATypeCannotKeep(t *testing.T) {
	typ, _ := catalog.Lookup("m5.large")
	for _, x := range []struct {
		cni      catalog.CNI
		variable string
		most     int
	}{
		{catalog.DefaultCNI(), "", 0},
		{catalog.CNI{WarmENI: 3}, "", 0},
		{catalog.CNI{WarmENI: 4}, "WARM_ENI_TARGET", 3},
		{catalog.CNI{WarmENI: 4, WarmIP: 27}, "", 0}, // WARM_IP_TARGET replaces it
		{catalog.CNI{WarmIP: 28}, "WARM_IP_TARGET", 27},
		{catalog.CNI{MinimumIP: 28}, "MINIMUM_IP_TARGET", 27},
		{catalog.CNI{WarmIP: 28, MaxENI: 1}, "WARM_IP_TARGET", 9},
		{catalog.CNI{PrefixDelegation: true, WarmENI: 9, WarmPrefix: 27}, "", 0},
		{catalog.CNI{PrefixDelegation: true, WarmPrefix: 28}, "WARM_PREFIX_TARGET", 27},
		{catalog.CNI{WarmENI: 3, CustomNetwork: true}, "WARM_ENI_TARGET", 2},
	} {
		if variable, _, most := x.cni.Unkept(typ); variable != x.variable || most != x.most {
			t.Errorf("under %+v: %q, at most %d; want %q, %d", x.cni, variable, most, x.variable, x.most)
		}
	}
}
