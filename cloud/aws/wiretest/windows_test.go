package wiretest

import (
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region/nodesim"
)

// A class of a Windows family has the only image that EKS has for its year, offers amd64 types with the labels of
// Windows, and launches instances that EC2 calls Windows, with a root volume for Windows.
func TestAClassOfWindows(t *testing.T) {
	for year, build := range map[string]string{"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"} {
		p := newPlace(t)
		class := p.classes["default"]
		class.Spec.AMISelectorTerms[0].Alias = "windows" + year + "@latest"
		p.resolve(t, "default")
		want := model.NewRequirements(model.OneOf(model.LabelArch, "amd64"), model.OneOf(model.LabelOS, "windows"),
			model.OneOf(corev1.LabelWindowsBuild, build))
		images := class.Status.AMIs
		if len(images) != 1 || !strings.HasPrefix(images[0].Name, "Windows_Server-"+year+"-English-Core-EKS_Optimized-1.36-") {
			t.Fatalf("images %+v", images)
		}
		for _, r := range images[0].Requirements {
			if got, _ := want.Get(r.Key); len(images[0].Requirements) != 3 || !slices.Equal(got.Values, r.Values) {
				t.Errorf("the image requires %v, want %s", images[0].Requirements, want)
			}
		}
		provider := p.connect(t)
		types, err := provider.Catalog(t.Context(), requestFor("any", "win").Class)
		if err != nil || len(types) == 0 {
			t.Fatalf("%d types, %v", len(types), err)
		}
		for _, it := range types {
			if conflict := it.Requirements.Conflict(want, nil); conflict != "" {
				t.Fatalf("%s has another %s than %s", it.Name, conflict, want)
			}
		}
		at := slices.IndexFunc(types, func(it model.InstanceType) bool { return it.Name == "m5.large" })
		if r := types[at].Allocatable; r[model.Pods] != 110 || r[model.PrivateIPv4] != 9 {
			t.Errorf("m5.large takes %d pods, and %d with addresses; want 110 and 9", r[model.Pods], r[model.PrivateIPv4])
		}
		result, err := provider.Launch(t.Context(), pinned("c", "win"))
		if err != nil {
			t.Fatal(err)
		}
		p.wantWindows(t, result.Instance.ID, year)
	}
}

// wantWindows checks an instance as EC2 shows it and as its kubelet would register it.
func (p *place) wantWindows(t *testing.T, id, year string) {
	t.Helper()
	api := ec2.NewFromConfig(awssdk.Config{
		Region: "us-west-2", BaseEndpoint: &p.url, Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	out, err := api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: awssdk.String("platform"), Values: []string{"windows"}},
	}})
	if err != nil || len(out.Reservations) != 1 {
		t.Fatalf("instances of Windows: %+v, %v", out, err)
	}
	i := out.Reservations[0].Instances[0]
	if *i.InstanceId != id || *i.RootDeviceName != "/dev/sda1" || *i.PlatformDetails != "Windows" ||
		len(i.BlockDeviceMappings) != 1 {
		t.Errorf("instance %+v", i)
	}
	for _, i := range p.region.Instances() {
		_, allocatable, err := nodesim.Resources(nodesim.Instance{
			UserData: i.UserData, Windows: i.Windows, RootDisk: i.NodeDiskGiB << 30, Type: p.region.Type(i.Type),
		})
		if disk := allocatable.StorageEphemeral().Value(); err != nil || i.Windows != year || disk>>30 != 44 {
			t.Errorf("Windows %s has %d bytes for pods, %v", i.Windows, disk, err)
		}
	}
}

// Windows Server 2025 requires Kubernetes 1.35.
func TestWindowsOfALaterKubernetes(t *testing.T) {
	p := newPlace(t)
	class := p.classes["default"]
	class.Spec.AMISelectorTerms[0].Alias = "windows2025@latest"
	provider := p.connectWith(t, func(o *aws.Options) { o.KubernetesVersion = "1.34" })
	if err := provider.Resolve(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	got := class.StatusConditions().Get("AMIsReady")
	if want := "Windows Server 2025 requires EKS version 1.35 or higher, current version: 1.34; use windows2022@latest"; !got.IsFalse() ||
		!strings.Contains(got.Message, "spec.amiSelectorTerms[0].alias: "+want) {
		t.Errorf("condition %+v", got)
	}
}

// An instance drifts when its Windows image is no longer its class's, as in any family.
func TestWindowsDrifts(t *testing.T) {
	p := newPlace(t)
	class := p.classes["default"]
	class.Spec.AMISelectorTerms[0].Alias = "windows2019@latest"
	p.resolve(t, "default")
	provider := p.connect(t)
	result, err := provider.Launch(t.Context(), pinned("c", "win"))
	if err != nil {
		t.Fatal(err)
	}
	launched := cloud.Launched{
		InstanceID: result.Instance.ID, Class: requestFor("c", "win").Class, Type: result.Instance.Type,
		ImageID: result.Instance.ImageID,
	}
	if reason, err := provider.Drifted(t.Context(), launched); reason != "" || err != nil {
		t.Errorf("a new instance drifts: %q, %v", reason, err)
	}
	class.Spec.AMISelectorTerms[0].Alias = "windows2022@latest"
	p.resolve(t, "default")
	if reason, err := p.connect(t).Drifted(t.Context(), launched); reason != "AMIDrift" || err != nil {
		t.Errorf("after another year: %q, %v; want AMIDrift", reason, err)
	}
}
