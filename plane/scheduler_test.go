package plane_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
)

// twoProfiles only score nodes by their CPU: one prefers the fullest node, the other the emptiest.
const twoProfiles = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packed
  plugins: &fit {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]
- schedulerName: spread
  plugins: *fit
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}}}]
`

// The plugins and the scoring of each profile are those of the configuration: pods of one profile pack, those of the
// other spread, on the same nodes.
func TestEachProfileScoresNodesItsOwnWay(t *testing.T) {
	skipShort(t)
	p := start(t, plane.Options{DataDir: t.TempDir(), SchedulerConfig: []byte(twoProfiles)})
	defer stop(t, p)
	c := client(t, p)
	for _, name := range []string{"busy", "idle"} {
		_, err := c.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10"),
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	place(t, c, "packed", "2", "busy") // and kube-scheduler has seen both nodes
	place(t, c, "packed", "1m", "idle")
	if node := place(t, c, "spread", "100m", ""); node != "idle" {
		t.Errorf("the profile that spreads chose %s", node)
	}
	if node := place(t, c, "packed", "100m", ""); node != "busy" {
		t.Errorf("the profile that packs chose %s", node)
	}
}

// place creates a pod of a scheduler's profile, on a node if one is given, and returns the node that it was bound to.
func place(t *testing.T, c *kubernetes.Clientset, profile, cpu, node string) (bound string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: profile + "-" + cpu},
		Spec: corev1.PodSpec{
			SchedulerName: profile, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
			}}},
		},
	}
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	planetest.Eventually(t, "a bound pod", func(ctx context.Context) error {
		_, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}) // once the service account exists
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		have, err := c.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if bound = have.Spec.NodeName; bound == "" {
			return errors.New("it is pending")
		}
		return nil
	})
	return bound
}
