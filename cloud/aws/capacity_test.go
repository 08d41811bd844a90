package aws

import (
	"fmt"
	"math"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func typeNamed(t *testing.T, p *Provider, name string) model.InstanceType {
	t.Helper()
	types, err := p.Catalog(t.Context(), classRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range types {
		if it.Name == name {
			return it
		}
	}
	t.Fatalf("%s is not in the catalogue", name)
	return model.InstanceType{}
}

const mib = int64(1) << 20

// Test vectors of github.com/awslabs/amazon-eks-ami, nodeadm.
func TestAllocatableMatchesTheDocuments(t *testing.T) {
	_, p, _ := stage(t)
	for name, want := range map[string]struct{ cpu, mib, pods int64 }{
		"c7i.2xlarge": {7910, 14162, 58},
		"t3.medium":   {1930, 4096 - 308 - 442 - 100, 17},
		"r7g.xlarge":  {3920, 29258, 58},
	} {
		a := typeNamed(t, p, name).Allocatable
		if a[model.CPU] != want.cpu || a[model.Memory]/mib != want.mib || a[model.Pods] != want.pods {
			t.Errorf("%s: cpu %d, memory %d Mi, pods %d, want %+v", name, a[model.CPU], a[model.Memory]/mib, a[model.Pods], want)
		}
		if disk := a[model.EphemeralStorage]; disk != 20*gib-gib-2*gib {
			t.Errorf("%s: disk %d", name, disk)
		}
	}
}

func TestCapacityFollowsTheKubeletSettings(t *testing.T) {
	_, p, class := stage(t)
	before := typeNamed(t, p, "m5.large")
	disk := resource.MustParse("100Gi")
	class.Spec.Kubelet = &ec2v1.KubeletConfiguration{
		MaxPods: awssdk.Int32(50), PodsPerCore: awssdk.Int32(10), KubeReserved: map[string]string{"cpu": "100m"},
		SystemReserved: map[string]string{"memory": "1Gi"},
		EvictionHard:   map[string]string{"memory.available": "10%", "nodefs.available": "100%"},
	}
	class.Spec.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{{
		DeviceName: awssdk.String("/dev/xvda"),
		EBS:        &ec2v1.BlockDevice{VolumeSize: &disk},
	}}
	it := typeNamed(t, p, "m5.large")
	memory := it.Capacity[model.Memory]
	if it.Capacity[model.Pods] != 20 || it.Allocatable[model.CPU] != 1900 {
		t.Errorf("pods %d, cpu %d", it.Capacity[model.Pods], it.Allocatable[model.CPU])
	}
	// nodeadm uses the 29 addresses of the type, not maxPods.
	if want := memory - (11*29+255)*mib - gib - int64(math.Ceil(float64(
		memory)/10)); it.Allocatable[model.Memory] != want {
		t.Errorf("memory %d, want %d", it.Allocatable[model.Memory], want)
	}
	if it.Allocatable[model.EphemeralStorage] != 99*gib {
		t.Errorf("disk %d", it.Allocatable[model.EphemeralStorage])
	}
	if before.Capacity[model.Pods] != 29 {
		t.Error("a catalogue that was handed out has changed")
	}
}

func TestLabelsSayWhatATypeIs(t *testing.T) {
	_, p, _ := stage(t)
	rs := typeNamed(t, p, "g5.xlarge").Requirements
	for key, want := range map[string]string{
		ec2v1.LabelInstanceCategory: "g", ec2v1.LabelInstanceFamily: "g5", ec2v1.LabelInstanceGeneration: "5",
		ec2v1.LabelInstanceSize:    "xlarge",
		ec2v1.LabelInstanceGPUName: "a10g", ec2v1.LabelInstanceGPUManufacturer: "nvidia", ec2v1.LabelInstanceGPUCount: "1",
		ec2v1.LabelInstanceGPUMemory: "22888", ec2v1.LabelInstanceCPU: "4", ec2v1.LabelInstanceMemory: "16384",
		model.LabelArch:                    "amd64",
		ec2v1.LabelInstanceCPUManufacturer: "intel", ec2v1.LabelInstanceCPUSustainedClockSpeedMhz: "3200",
		ec2v1.LabelInstanceNetworkBandwidth: "750", ec2v1.LabelInstanceCapabilityFlex: "false",
		ec2v1.LabelInstanceHypervisor: "nitro",
		model.LabelRegion:             "us-west-2", model.LabelOS: "linux",
	} {
		if r, ok := rs.Get(key); !ok || !r.Has(want) || len(r.Values) != 1 {
			t.Errorf("%s is %v, want %s", key, r, want)
		}
	}
	if r, ok := rs.Get(ec2v1.LabelInstanceAcceleratorCount); ok {
		t.Errorf("a type without accelerator has %v", r)
	}
	for name, want := range map[string][2]string{
		"u-6tb1.metal": {"u", "1"}, "c7gn.medium": {"c", "7"},
		"inf2.xlarge": {"inf", "2"}, "mac2-m2.metal": {"mac", "2"},
	} {
		if p := typeName.FindStringSubmatch(name); p == nil || p[1] != want[0] || p[2] != want[1] {
			t.Errorf("%s is of %v, want %v", name, p, want)
		}
	}
}

// A status write that does not affect the catalogue must not make the cluster state process 900 types again.
func TestCatalogStaysTheSameSliceAcrossStatusWrites(t *testing.T) {
	_, p, class := stage(t)
	first, err := p.Catalog(t.Context(), classRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"5", "6"} {
		class.ResourceVersion = version
		if again, err := p.Catalog(t.Context(), classRef); err != nil || &again[0] != &first[0] {
			t.Errorf("version %s: another slice, %v", version, err)
		}
	}
	class.Status.Subnets, class.ResourceVersion = class.Status.Subnets[:1], "7"
	again, err := p.Catalog(t.Context(), classRef)
	if err != nil || len(again[0].Offerings) != 2 {
		t.Errorf("one zone left: %v, %v", again[0].Offerings, err)
	}
}

// benchTypes returns a region of 900 types.
func benchTypes() ([]ec2types.InstanceTypeInfo, *ec2.DescribeInstanceTypeOfferingsOutput) {
	var types []ec2types.InstanceTypeInfo
	base := typeList()
	offered := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for i := range 900 {
		t := base[i%len(base)]
		t.InstanceType = ec2types.InstanceType(fmt.Sprintf("c%d.s%d", i, i))
		types = append(types, t)
		for _, z := range fakeZones {
			offered.InstanceTypeOfferings = append(offered.InstanceTypeOfferings,
				ec2types.InstanceTypeOffering{InstanceType: t.InstanceType, Location: awssdk.String(z)})
		}
	}
	return types, offered
}

func benchProvider(b *testing.B) (*Provider, *ec2v1.EC2NodeClass, *offers) {
	b.Helper()
	types, offered := benchTypes()
	class := newClass("default")
	for _, z := range fakeZones {
		class.Status.Subnets = append(class.Status.Subnets, ec2v1.Subnet{ID: "subnet-" + z, Zone: z, ZoneID: z})
	}
	class.Status.AMIs = newest(standardImages())
	class.ResourceVersion = "1"
	class.StatusConditions().SetTrue("Ready")
	p, err := New(b.Context(), Options{
		AWS: newAccount().config(), ClusterName: "demo", KubernetesVersion: "1.36",
		Classes: func(cloud.ClassRef) *ec2v1.EC2NodeClass { return class },
	})
	if err != nil {
		b.Fatal(err)
	}
	g := &offers{
		generation: 1, types: types, zones: map[string]map[string]bool{}, onDemand: map[string]model.Price{},
		at: map[section]time.Time{},
	}
	for s := range sectionAges {
		g.at[s] = time.Now()
	}
	for _, o := range offered.InstanceTypeOfferings {
		name := string(o.InstanceType)
		if g.zones[name] == nil {
			g.zones[name] = map[string]bool{}
		}
		g.zones[name][*o.Location], g.onDemand[name] = true, 100000
	}
	p.market.newest = g
	return p, class, g
}

func standardImages() []image {
	p := newProvider(&account{o: Options{Clock: clock.Real{}}})
	var out []image
	for _, i := range imageList() {
		out = append(out, p.images.imageEntries(i, []variant{standard})...)
	}
	return out
}

func BenchmarkCatalogAssembled(b *testing.B) {
	p, class, g := benchProvider(b)
	for b.Loop() {
		p.assemble(class, g, nil, placementGroup{})
	}
}

func BenchmarkCatalogAgain(b *testing.B) {
	p, _, _ := benchProvider(b)
	for b.Loop() {
		if _, err := p.Catalog(b.Context(), classRef); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChoices(b *testing.B) {
	p, class, _ := benchProvider(b)
	c, err := p.catalogs.of(b.Context(), class)
	if err != nil {
		b.Fatal(err)
	}
	req := requestFor("c")
	for b.Loop() {
		nextChoices(c.choices(&req), nil)
	}
}
