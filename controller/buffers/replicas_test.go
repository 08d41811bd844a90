package buffers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func number(n int32) *int32 { return &n }

func TestHowManyPlaceholdersABufferHas(t *testing.T) {
	pod := amounts("cpu", "1", "memory", "512Mi")
	for _, c := range []struct {
		story string
		spec  autoscaling.CapacityBufferSpec
		scale *int32
		want  int32
		why   string // part of the message if want is 0
	}{
		{story: "a number", spec: autoscaling.CapacityBufferSpec{Replicas: number(3)}, want: 3},
		{story: "a percentage", spec: autoscaling.CapacityBufferSpec{Percentage: number(20)}, scale: number(10), want: 2},
		{
			story: "a percentage is rounded up", spec: autoscaling.CapacityBufferSpec{Percentage: number(20)},
			scale: number(11), want: 3,
		},
		{
			story: "at least one of any workload", spec: autoscaling.CapacityBufferSpec{Percentage: number(1)},
			scale: number(1), want: 1,
		},
		{
			story: "the larger of both", spec: autoscaling.CapacityBufferSpec{Replicas: number(3), Percentage: number(50)},
			scale: number(10), want: 5,
		},
		{
			story: "nothing of nothing", spec: autoscaling.CapacityBufferSpec{Percentage: number(50)}, scale: number(0),
			why: "ask for none",
		},
		{
			story: "nothing of nothing, whatever the limits hold",
			spec:  autoscaling.CapacityBufferSpec{Percentage: number(50), Limits: autoscaling.Limits(amounts("cpu", "8"))},
			scale: number(0), why: "ask for none",
		},
		{
			story: "as many as the limits hold",
			spec:  autoscaling.CapacityBufferSpec{Limits: autoscaling.Limits(amounts("cpu", "5500m", "memory", "8Gi"))}, want: 5,
		},
		{
			story: "the limits are the end",
			spec:  autoscaling.CapacityBufferSpec{Replicas: number(9), Limits: autoscaling.Limits(amounts("memory", "1Gi"))},
			want:  2,
		},
		{
			story: "limits with room to spare",
			spec:  autoscaling.CapacityBufferSpec{Replicas: number(1), Limits: autoscaling.Limits(amounts("cpu", "8"))}, want: 1,
		},
		{
			story: "too small limits",
			spec:  autoscaling.CapacityBufferSpec{Replicas: number(1), Limits: autoscaling.Limits(amounts("cpu", "500m"))},
			why:   "spec.limits holds no pod of cpu 1, memory 512Mi; raise it",
		},
		{
			story: "negative limits", spec: autoscaling.CapacityBufferSpec{Limits: autoscaling.Limits(amounts("cpu", "-4"))},
			why: "raise it",
		},
		{
			story: "limits about something else",
			spec:  autoscaling.CapacityBufferSpec{Limits: autoscaling.Limits(amounts("nvidia.com/gpu", "4"))},
			why:   "spec.limits names no resource that a pod requests (cpu, memory)",
		},
		{
			story: "a number beside limits about something else",
			spec: autoscaling.CapacityBufferSpec{
				Replicas: number(2),
				Limits:   autoscaling.Limits(amounts("nvidia.com/gpu", "4")),
			}, want: 2,
		},
		{story: "nothing said", why: "set one"},
		{
			story: "too many digits", spec: autoscaling.CapacityBufferSpec{Percentage: number(2147483647)},
			scale: number(2147483647), want: maxReplicas,
		},
		{
			story: "too large limits",
			spec:  autoscaling.CapacityBufferSpec{Limits: autoscaling.Limits(amounts("cpu", "100E", "memory", "100Ei"))},
			want:  maxReplicas,
		},
	} {
		got, why := replicas(&c.spec, c.scale, pod)
		if got != c.want || (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d %q, want %d %q", c.story, got, why, c.want, c.why)
		}
	}
}

func TestAPlaceholderClaimsNoVolume(t *testing.T) {
	spec := corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}
	pod := placeholder(&autoscaling.CapacityBuffer{}, nil, spec)
	if len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].Name != "c" || pod.Spec.NodeName != "" {
		t.Errorf("volumes that nobody will claim: %v", pod.Spec)
	}
	if len(spec.Volumes) != 3 || spec.Volumes[0].Name != "a" {
		t.Error("the template itself was changed")
	}
}
