package aws

import (
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

func windowsClass(alias string) *ec2v1.EC2NodeClass {
	class := newClass("default")
	class.Spec.AMISelectorTerms[0].Alias = alias
	return class
}

// A Windows image joins the cluster by a script that follows the class's own, with the kubelet's settings as flags.
func TestWindowsJoinsByPowerShell(t *testing.T) {
	class := windowsClass("windows2022@latest")
	class.Spec.UserData = awssdk.String("Write-Host hello\n")
	class.Spec.Kubelet = &ec2v1.KubeletConfiguration{
		PodsPerCore: awssdk.Int32(10), KubeReserved: map[string]string{"memory": "1Gi", "cpu": "200m"},
		SystemReserved:              map[string]string{"memory": "2Gi"},
		EvictionHard:                map[string]string{"memory.available": "5%"},
		EvictionSoft:                map[string]string{"memory.available": "10%"},
		EvictionSoftGracePeriod:     map[string]metav1.Duration{"memory.available": {Duration: time.Minute}},
		EvictionMaxPodGracePeriod:   awssdk.Int32(30),
		ImageGCHighThresholdPercent: awssdk.Int32(80), ImageGCLowThresholdPercent: awssdk.Int32(70),
		CPUCFSQuota: awssdk.Bool(false), ClusterDNS: []string{"10.0.0.9"},
	}
	b := bootFor(class)
	b.labels, b.maxPods = map[string]string{"a": "b", "karpenter.sh/nodepool": "win"}, awssdk.Int32(40)
	got, err := b.userData()
	if err != nil {
		t.Fatal(err)
	}
	want := `<powershell>
Write-Host hello
& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1" -EKSClusterName 'demo' -APIServerEndpoint 'https://cluster'` +
		` -Base64ClusterCA 'Q0E=' -DNSClusterIP '10.0.0.9' -ServiceCIDR '10.100.0.0/16' -KubeletExtraArgs '` +
		`--node-labels="a=b,karpenter.sh/nodepool=win"` +
		` --register-with-taints="k=v:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=40 --pods-per-core=10` +
		` --system-reserved="memory=2Gi" --kube-reserved="cpu=200m,memory=1Gi" --eviction-hard="memory.available<5%"` +
		` --eviction-soft="memory.available<10%" --eviction-soft-grace-period="memory.available=1m0s"` +
		` --eviction-max-pod-grace-period=30 --image-gc-high-threshold=80 --image-gc-low-threshold=70` +
		` --cpu-cfs-quota=false'
</powershell>
`
	if got != want {
		t.Errorf("user data\n%s\nwant\n%s", got, want)
	}
	class.Spec.UserData = awssdk.String("<powershell>\nWrite-Host hello\n</powershell>")
	if _, err := bootFor(class).userData(); err == nil || !strings.Contains(err.Error(), "spec.userData of") ||
		!strings.Contains(err.Error(), "without <powershell>") {
		t.Errorf("a script in a script: %v", err)
	}
}

func TestDisksOfWindows(t *testing.T) {
	class := windowsClass("windows2019@latest")
	if d := disks(class); len(d) != 1 || *d[0].DeviceName != "/dev/sda1" || *d[0].Ebs.VolumeSize != 50 ||
		!*d[0].Ebs.Encrypted || d[0].Ebs.VolumeType != "gp3" {
		t.Errorf("by default %+v", d)
	}
	if got := diskBytes(class); got != 50*gib {
		t.Errorf("pods may use %d bytes, want 50 GiB", got)
	}
	own := defaultDisks(ec2v1.AMIFamilyWindows2019)
	own[0].EBS.VolumeSize.Set(100 * gib)
	class.Spec.BlockDeviceMappings = own
	if got := diskBytes(class); got != 100*gib {
		t.Errorf("of a volume of 100 GiB pods may use %d bytes", got)
	}
	raid := ec2v1.InstanceStorePolicyRAID0
	class.Spec.InstanceStorePolicy = &raid
	if connect(t, newAccount().config(), nil).sizingOf(class).kubelet.InstanceStoreRAID0 {
		t.Error("local disks are counted, which Windows leaves alone")
	}
}

// The image of an unresolved class is unknown, but no Windows image is for arm64.
func TestWindowsIsForAMD64(t *testing.T) {
	types, assumed, err := BuiltIn(windowsClass("windows2022@latest"), "us-west-2", catalog.Of("us-west-2"), 0)
	if err != nil || !assumed || len(types) == 0 {
		t.Fatalf("%d types, assumed: %v, %v", len(types), assumed, err)
	}
	for _, it := range types {
		if arch, _ := it.Requirements.Get(model.LabelArch); !slices.Equal(arch.Values, []string{"amd64"}) {
			t.Fatalf("%s is offered, which is %s", it.Name, arch)
		}
	}
}
