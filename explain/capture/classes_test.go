package capture

import (
	"context"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// networker is a source of prices that knows custom networking, as AWS does.
type networker struct {
	cloud.PodNetworker
	reserved int
}

func (n *networker) ReserveENIs(reserved int) { n.reserved = reserved }

func (n *networker) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	t := model.InstanceType{Name: "m5.large"}
	t.Capacity[model.Pods] = int64(29 - 9*n.reserved)
	return []model.InstanceType{t}, nil
}

// PriceNote says that prices are those of another region, as AWS's catalogue does.
func (*networker) PriceNote() string { return "on-demand prices of us-east-1" }

func TestPricesOfAnotherRegionAreNamed(t *testing.T) {
	c := newCluster(Options{Clock: clock.Real{}, Prices: "AWS, asked now"})
	c.catalog = &networker{}
	if got := c.Prices(); got != "AWS, asked now; on-demand prices of us-east-1" {
		t.Errorf("prices are %q", got)
	}
}

// Where custom networking leaves fewer addresses to pods, AWS's catalogue says so, as in the controller.
func TestALiveCatalogueKnowsCustomNetworking(t *testing.T) {
	c := newCluster(Options{Clock: clock.Real{}})
	c.catalog = &networker{}
	class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	class.Status.Conditions = []status.Condition{{Type: "Ready", Status: "True"}}
	name, _ := ClassOf(class)
	c.SetClasses(map[string]*ec2v1.EC2NodeClass{name: class})
	cni := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "aws-node", Generation: 1, ResourceVersion: "1",
	}}
	cni.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "aws-node", Env: []corev1.EnvVar{{Name: "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", Value: "true"}},
	}}
	c.State.Update(cni)
	types, _, err := c.offered(t.Context(), cloud.ClassRef{Group: classGroup, Kind: classKind, Name: class.Name})
	if err != nil || len(types) != 1 || types[0].Capacity[model.Pods] != 20 {
		t.Errorf("%+v, %v; want 20 pods on an m5.large", types, err)
	}
}
