package wiretest

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region/nodesim"
)

// Plans rely on the capacity that nodes really have: for every type the provider's expectation, computed from EC2's
// responses, equals the Node that the simulated kubelet registers from the launch's user data and disk.
func TestNodesHaveTheRoomThatIsExpected(t *testing.T) {
	for name, change := range map[string]func(*ec2v1.EC2NodeClassSpec){
		"default settings": func(*ec2v1.EC2NodeClassSpec) {},
		"the class's own settings": func(s *ec2v1.EC2NodeClassSpec) {
			policy := ec2v1.InstanceStorePolicyRAID0
			s.InstanceStorePolicy = &policy
			size := resource.MustParse("100Gi")
			s.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{{
				DeviceName: awssdk.String("/dev/xvda"), RootVolume: true, EBS: &ec2v1.BlockDevice{VolumeSize: &size},
			}}
			s.Kubelet = &ec2v1.KubeletConfiguration{
				MaxPods: awssdk.Int32(110), PodsPerCore: awssdk.Int32(20),
				KubeReserved:   map[string]string{"cpu": "150m", "memory": "700Mi"},
				SystemReserved: map[string]string{"memory": "100M", "ephemeral-storage": "2Gi"},
				EvictionHard:   map[string]string{"memory.available": "5%", "nodefs.available": "15%"},
			}
		},
		"Bottlerocket with settings and disks of its own": func(s *ec2v1.EC2NodeClassSpec) {
			s.AMISelectorTerms[0].Alias = "bottlerocket@latest"
			policy := ec2v1.InstanceStorePolicyRAID0
			s.InstanceStorePolicy = &policy
			s.UserData = awssdk.String("[settings.bootstrap-commands.hello]\ncommands = [[\"echo\", \"hello\"]]\n" +
				"mode = \"once\"\nessential = false")
			system, data := resource.MustParse("4Gi"), resource.MustParse("80Gi")
			s.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{
				{DeviceName: awssdk.String("/dev/xvda"), EBS: &ec2v1.BlockDevice{VolumeSize: &system}},
				{DeviceName: awssdk.String("/dev/xvdb"), EBS: &ec2v1.BlockDevice{VolumeSize: &data}},
			}
			s.Kubelet = &ec2v1.KubeletConfiguration{
				MaxPods: awssdk.Int32(40), KubeReserved: map[string]string{"cpu": "150m"},
				EvictionHard: map[string]string{"memory.available": "5%"},
			}
		},
		"Windows with settings and a disk of its own": func(s *ec2v1.EC2NodeClassSpec) {
			s.AMISelectorTerms[0].Alias = "windows2022@latest"
			size := resource.MustParse("120Gi")
			s.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{{
				DeviceName: awssdk.String("/dev/sda1"), EBS: &ec2v1.BlockDevice{VolumeSize: &size},
			}}
			s.Kubelet = &ec2v1.KubeletConfiguration{
				MaxPods: awssdk.Int32(60), PodsPerCore: awssdk.Int32(20),
				KubeReserved:   map[string]string{"cpu": "150m", "memory": "700Mi"},
				SystemReserved: map[string]string{"memory": "100M"},
				EvictionHard:   map[string]string{"memory.available": "5%"},
			}
		},
		"Windows": func(s *ec2v1.EC2NodeClassSpec) { s.AMISelectorTerms[0].Alias = "windows2019@latest" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			change(&p.classes["default"].Spec)
			p.resolve(t, "default")
			p.compareRoom(t)
		})
	}
}

func (p *place) compareRoom(t *testing.T) {
	t.Helper()
	provider := p.connect(t)
	result, err := provider.Launch(t.Context(), requestFor("any", "general"))
	if err != nil {
		t.Fatal(err)
	}
	var m nodesim.Instance
	for _, i := range p.region.Instances() {
		if i.ID == result.Instance.ID {
			m = nodesim.Instance{UserData: i.UserData, RootDisk: i.NodeDiskGiB << 30, Windows: i.Windows}
		}
	}
	types, err := provider.Catalog(t.Context(), requestFor("any", "general").Class)
	if err != nil || len(types) < 400 {
		t.Fatalf("%d types, %v", len(types), err)
	}
	for i := range types {
		it := &types[i]
		m.Type = p.region.Type(it.Name)
		capacity, allocatable, err := nodesim.Resources(m)
		if err != nil {
			t.Fatal(err)
		}
		sameAmounts(t, it.Name+": capacity", it.Capacity, capacity)
		sameAmounts(t, it.Name+": allocatable", it.Allocatable, allocatable)
	}
}

func sameAmounts(t *testing.T, what string, expected model.Resources, have corev1.ResourceList) {
	t.Helper()
	for i, name := range model.WellKnownResources {
		q := have[corev1.ResourceName(name)]
		amount := q.Value()
		if i == model.CPU {
			amount = q.MilliValue()
		}
		if amount != expected[i] {
			t.Errorf("%s of %s is expected to be %d, the node has %d", what, name, expected[i], amount)
		}
	}
}
