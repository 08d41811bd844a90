package viewer

import (
	"fmt"
	"testing"
	"time"

	"github.com/awslabs/eks-node-viewer/pkg/model"
	tea "github.com/charmbracelet/bubbletea"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The time of a frame of eks-node-viewer, for the clusters that view/tui's BenchmarkFrame draws: `make bench-views`
// runs both.
func BenchmarkFrame(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		const podsEach = 30
		b.Run(fmt.Sprintf("eks-node-viewer/%d-nodes-%d-pods", nodes, nodes*podsEach), func(b *testing.B) {
			style, err := model.ParseStyle("#04B575,#FFFF00,#FF0000")
			if err != nil {
				b.Fatal(err)
			}
			ui := model.NewUIModel(nil, "creation=dsc", style)
			ui.SetResources([]string{"cpu", "memory"})
			ui.Update(tea.WindowSizeMsg{Width: 160, Height: 50})
			fill(ui, nodes, podsEach)
			b.ReportAllocs()
			for b.Loop() {
				_ = ui.View()
			}
		})
	}
}

func fill(ui *model.UIModel, nodes, podsEach int) {
	for i := range nodes {
		name := fmt.Sprintf("ip-10-%d-%d-%d.us-west-2.compute.internal", i>>16&255, i>>8&255, i&255)
		n := model.NewNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
				Labels: map[string]string{
					"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "c6a.4xlarge",
				},
			},
			Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///us-west-2a/i-%08x", i)},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("15890m"), "memory": resource.MustParse("30Gi")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
		n.SetPrice(0.612)
		n.Show()
		ui.Cluster().AddNode(n)
		for j := range podsEach {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d-%d", i, j)},
				Spec:       corev1.PodSpec{NodeName: name},
			}
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("400m"), "memory": resource.MustParse("512Mi")},
			}}}
			pod.Status.Phase = corev1.PodRunning
			ui.Cluster().AddPod(model.NewPod(pod))
		}
	}
}
