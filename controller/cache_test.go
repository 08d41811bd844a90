package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

func TestALeanPodIsTheSamePodToTheEngine(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(amount)} }
	for name, held := range map[string]string{"at rest": "1", "while it is resized from two CPUs to one": "2"} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Spec.Containers = []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: cpu("1")},
				Ports: []corev1.ContainerPort{{HostPort: 80}},
			}}
			pod.Spec.Volumes = []corev1.Volume{{
				Name:         "v",
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
			}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c", ImageID: "sha256:…", Resources: &corev1.ResourceRequirements{Requests: cpu(held)},
				AllocatedResources: cpu(held),
			}}
			want := translate.NewNames().Shape(pod, nil)
			lean, err := translate.LeanPod(pod.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			got := translate.NewNames().Shape(lean.(*corev1.Pod), nil)
			if got.Key != want.Key || want.Requests[model.CPU] != milli(held) {
				t.Errorf("got %s, want %s", got.Key, want.Key)
			}
			for _, s := range lean.(*corev1.Pod).Status.ContainerStatuses {
				if s.ImageID != "" {
					t.Error("not lean")
				}
			}
		})
	}
}

func milli(amount string) int64 {
	q := resource.MustParse(amount)
	return q.MilliValue()
}
