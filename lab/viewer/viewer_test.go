// Package viewer checks that eks-node-viewer reads the nodes of Nodeless as it reads Karpenter's. It is a module of
// its own, so that the viewer's dependencies stay out of the product.
package viewer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/awslabs/eks-node-viewer/pkg/aws"
	viewerclient "github.com/awslabs/eks-node-viewer/pkg/client"
	"github.com/awslabs/eks-node-viewer/pkg/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

func TestTheViewerShowsOurMachines(t *testing.T) {
	s := stacktest.Start(t)
	<-s.Controller(t, nil).Leads
	namespace := planetest.Namespace(t, s.Plane)
	style, err := model.ParseStyle("#04B575,#FFFF00,#FF0000")
	if err != nil {
		t.Fatal(err)
	}
	ui := model.NewUIModel([]string{"karpenter.sh/nodepool", "karpenter.sh/capacity-type"}, "creation=asc", style)
	watch(t, s, ui)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
	}}}
	if err := s.Client.Create(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	var shown *model.Node
	planetest.Eventually(t, "the viewer shows the machine with its pod", func(context.Context) error {
		shown = nil
		ui.Cluster().ForEachNode(func(n *model.Node) { shown = n })
		if shown == nil || !shown.Ready() || shown.NumPods() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if !shown.IsOnDemand() || shown.IsSpot() || shown.Cordoned() || shown.Deleting() || !shown.Visible() {
		t.Errorf("on demand %v, spot %v, cordoned %v, deleting %v, visible %v", shown.IsOnDemand(), shown.IsSpot(),
			shown.Cordoned(), shown.Deleting(), shown.Visible())
	}
	if !strings.HasPrefix(shown.InstanceID(), "i-") || shown.InstanceType() == "" ||
		!strings.HasPrefix(shown.Zone(), "us-west-2") {
		t.Errorf("instance %q of type %q in zone %q", shown.InstanceID(), shown.InstanceType(), shown.Zone())
	}
	if shown.Labels()["karpenter.sh/nodepool"] != "general-purpose" {
		t.Errorf("labels %v", shown.Labels())
	}
	if !shown.HasPrice() || shown.Price <= 0 || shown.Price > 1 {
		t.Errorf("price of %s: %v", shown.InstanceType(), shown.Price)
	}
	used := shown.Used()[corev1.ResourceCPU]
	if used.Value() != 1 {
		t.Errorf("used %s", used.String())
	}
}

// watch lets the viewer's own clients fill its model.
func watch(t *testing.T, s *stacktest.Stack, ui *model.UIModel) {
	t.Helper()
	kubeconfig := s.Plane.Kubeconfig()
	kube, err := viewerclient.NewKubernetes(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	claims, err := viewerclient.NewNodeClaims(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	viewerclient.NewController(kube, claims, ui, labels.Everything(), aws.NewStaticPricingProvider()).Start(ctx)
}
