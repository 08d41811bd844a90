package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// asks returns a pod with one container that has these requests and restarts when its memory changes.
func asks(cpu, memory string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}},
		ResizePolicy: []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		},
	}}}}
}

func TestAResizeRestartsWhatItsPolicySays(t *testing.T) {
	had := asks("100m", "64Mi").Spec.Containers[0].Resources
	for _, c := range []struct {
		cpu, memory string
		want        bool
	}{{"100m", "64Mi", false}, {"200m", "64Mi", false}, {"100m", "65536Ki", false}, {"100m", "65Mi", true}} {
		if got := restartsFor(&asks(c.cpu, c.memory).Spec.Containers[0], had); got != c.want {
			t.Errorf("to %s and %s: restart %t, want %t", c.cpu, c.memory, got, c.want)
		}
	}
}

func TestAResizeKeepsToTheMicroVM(t *testing.T) {
	m := &microVM{record: record{
		Size: fargate.Size{MilliCPU: 250, MemoryBytes: 128 << 20}, Resources: resourcesOf(asks("250m", "128Mi")),
	}}
	for _, c := range []struct{ cpu, memory, want string }{
		{"1", "128Mi", ""}, {"1001m", "128Mi", "cpu, requested: 1001, capacity: 1000"}, {"1", "129Mi", "memory, requested"},
	} {
		pod := asks(c.cpu, c.memory)
		if got := m.infeasible(pod); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s and %s: %q, want %q", c.cpu, c.memory, got, c.want)
		}
		want := pod.Spec.Containers[0].Resources.Requests.Cpu().String()
		if c.want != "" {
			want = "250m"
		}
		if got := m.feasible(pod).Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
			t.Errorf("%s and %s: a new virtual machine would get %s, want %s", c.cpu, c.memory, got, want)
		}
	}
}
