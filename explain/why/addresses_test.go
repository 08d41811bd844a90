package why_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
)

// vpcCNI is a VPC CNI that keeps one warm interface on each node.
const vpcCNI = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: aws-node, namespace: kube-system, uid: cni}
spec:
  selector: {matchLabels: {k8s-app: aws-node}}
  template:
    metadata: {labels: {k8s-app: aws-node}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: aws-node, image: i, env: [{name: WARM_ENI_TARGET, value: "1"}]}]
`

func addressesOf(t *testing.T, text string, decided func(*model.Snapshot) *model.Snapshot) *why.Addresses {
	t.Helper()
	text = strings.Replace(text, `"29"`, `"110"`, 2) // the kubelet takes more pods than there are addresses
	text = strings.Replace(text, `status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim`, `status:
  conditions: [{type: Ready, status: "True"}]
  subnets: [{id: subnet-b, zone: us-west-2b}, {id: subnet-a, zone: us-west-2a}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim`, 1)
	c, err := capture.Load(t.Context(), strings.NewReader(text), "shop.yaml", capture.Options{Region: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	return why.AllAddresses(c, model.Policy{}, decided(c.Snapshot()))
}

func elsewhere(*model.Snapshot) *model.Snapshot { return nil }

// Without the controller's process it is still known in which subnets pools launch, and how many addresses nodes hold
// by the targets of the VPC CNI: an m5.large has 3 interfaces of 9 pods each, one of them warm.
func TestAddressesOfAClusterWhoseControllerIsElsewhere(t *testing.T) {
	a := addressesOf(t, strings.Replace(idle, "BUDGET", `"1"`, 1)+vpcCNI+
		strings.TrimRight(ofShop("a", "nodeName: n1"), "\n")+"\nstatus: {phase: Running}\n", elsewhere)
	if a.Controller || a.At != nil || len(a.Launches) != 0 || len(a.Growth) != 0 || len(a.Subnets) != 2 {
		t.Fatalf("%+v", a)
	}
	if s := a.Subnets[0]; s.ID != "subnet-a" || s.Zone != "us-west-2a" || s.Free != nil ||
		!slices.Equal(s.Pools, []string{"general"}) {
		t.Errorf("%+v", s)
	}
	if a.Targets == nil || !slices.Equal(a.Targets.Variables, []string{"WARM_ENI_TARGET=1"}) {
		t.Errorf("targets %+v", a.Targets)
	}
	want := why.WarmPool{
		Pool: "general", Type: "m5.large", Zone: "us-west-2a", Nodes: 1, Pods: 1, ENIs: 2, MaxENIs: 3, Held: 18,
		Room: 27, Growth: 10,
	}
	if !slices.Equal(a.Warm, []why.WarmPool{want}) {
		t.Errorf("%+v, want %+v", a.Warm, want)
	}
	if a.ShortOf != 1 || a.Short[0].Name != "n1" || a.Short[0].Pods != 110 || a.Short[0].Short != 81 {
		t.Errorf("short of addresses: %+v", a.Short)
	}
}

// Without the VPC CNI no figures are invented.
func TestAddressesWithoutTheVPCCNI(t *testing.T) {
	here := func(s *model.Snapshot) *model.Snapshot { return s }
	a := addressesOf(t, strings.Replace(idle, "BUDGET", `"1"`, 1), here)
	if !a.Controller || a.At != nil || a.Targets != nil || len(a.Warm) != 0 || a.ShortOf != 0 || len(a.Subnets) != 2 {
		t.Errorf("%+v", a)
	}
}

// The snapshot of the controller's decisions says how many more nodes the subnets have addresses for, and whether
// nodes full of pods would get enough.
func TestAddressesOfTheControllersProcess(t *testing.T) {
	a := addressesOf(t, strings.Replace(idle, "BUDGET", `"1"`, 1)+vpcCNI, func(s *model.Snapshot) *model.Snapshot {
		out := *s
		out.Subnets = []model.Subnet{
			{ID: "subnet-a", Zone: "us-west-2a", CIDR: "10.0.0.0/28", Free: 7, Scattered: 3},
			{ID: "subnet-b", Zone: "us-west-2b", CIDR: "10.0.1.0/24", Free: 200},
			{ID: "subnet-c", Zone: "us-west-2c", Free: -3},
		}
		out.Pools = slices.Clone(s.Pools)
		out.Pools[0].Subnets = []string{"subnet-a", "subnet-b", "subnet-c"}
		types := slices.Clone(s.Pools[0].Types)
		for i := range types {
			types[i].Addresses = []model.AddressStep{{Pods: 29, Addresses: 20}}
			if types[i].Name == "t3.small" {
				types[i].Addresses = []model.AddressStep{{Pods: 3, Addresses: 8}, {Pods: 11, Addresses: 12}}
			}
		}
		out.Pools[0].Types = types
		return &out
	})
	if a.At == nil || len(a.Subnets) != 3 || a.Subnets[0].Total != 11 || *a.Subnets[0].Free != 7 ||
		a.Subnets[0].Scattered != 3 || a.Subnets[1].Scattered != 0 ||
		a.Subnets[1].Total != 251 || a.Subnets[2].Total != 0 || *a.Subnets[2].Free != 0 || !slices.Equal(a.Subnets[1].Pools, []string{"general"}) {
		t.Fatalf("%+v", a)
	}
	want := []why.LaunchAddress{
		{Pool: "general", Zone: "us-west-2a", Subnet: "subnet-a", Free: 7, Type: "t3.small", Least: 8},
		{Pool: "general", Zone: "us-west-2b", Subnet: "subnet-b", Free: 200, Type: "t3.small", Least: 8, Nodes: 25},
		{Pool: "general", Zone: "us-west-2c", Subnet: "subnet-c", Type: "t3.small", Least: 8},
	}
	if !slices.Equal(a.Launches, want) {
		t.Errorf("%+v\nwant %+v", a.Launches, want)
	}
	if len(a.Growth) != 1 || a.Growth[0] != (why.ZoneOfSubnets{Zone: "us-west-2a", Growth: 20, Free: 7}) {
		t.Errorf("%+v", a.Growth)
	}
}
