package aws

import (
	"errors"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
)

// Nodes of AL2023 do not join without the range of the cluster's Services: until it is known, none are launched. Nodes
// of other families join without it.
func TestAL2023WaitsForTheRangeOfServices(t *testing.T) {
	a, class := newAccount(), newClass("default")
	p := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{"default": class}, func(o *Options) { o.ServiceCIDR = "" })
	condition := func(alias string) string {
		class.Spec.AMISelectorTerms[0].Alias = alias
		if err := p.Resolve(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		c := class.StatusConditions().Get(ec2v1.ConditionTypeValidationSucceeded)
		return c.Reason + " " + c.Message
	}
	if got := condition("al2023@latest"); !strings.HasPrefix(got, "ClusterCIDRResolutionFailed ") ||
		!strings.Contains(got, "eks:DescribeCluster") || !strings.Contains(got, "No cluster found for name: demo") {
		t.Errorf("of AL2023: %s", got)
	}
	if got := condition("bottlerocket@latest"); !strings.HasPrefix(got, "ValidationSucceeded ") {
		t.Errorf("of Bottlerocket: %s", got)
	}
	condition("al2023@latest")
	class.StatusConditions().SetTrue(ec2v1.ConditionTypeValidationSucceeded) // as a process before this one left it
	if _, err := p.Launch(t.Context(), requestFor("c")); !errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("launch: %v", err)
	}
	if group := FromNodeGroup(&v1alpha1.NodeGroup{}); p.lacksServiceCIDR(group) {
		t.Error("instances of a group that has its own user data wait for the range, too")
	}
	a.fail["DescribeCluster"] = []error{apiError("ThrottlingException", "slow down")}
	if err := p.Resolve(t.Context(), class); !errors.Is(err, cloud.ErrThrottled) {
		t.Errorf("a passing failure of EKS: %v", err)
	}
	a.cluster = &ekstypes.Cluster{
		Endpoint: awssdk.String("https://eks"), CertificateAuthority: &ekstypes.Certificate{},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: awssdk.String("172.20.0.0/16")},
	}
	resolve(t, p, class)
	mustLaunch(t, p, requestFor("c"))
	for _, data := range a.templates {
		if text := decode(t, data.UserData); !strings.Contains(text, "cidr: 172.20.0.0/16") {
			t.Errorf("the range of Services is missing in\n%s", text)
		}
	}
}
