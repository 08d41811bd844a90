package microvm_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// A FargateProfile selects a pod by its namespace and labels. The pod gets the smallest size that holds its requests
// and the 256 MiB that Fargate adds.
func Example() {
	profile := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}
	profile.Spec.Selectors = []v1alpha1.FargateProfileSelector{{
		Namespace: "shop-*",
		Labels:    map[string]v1alpha1.LabelPattern{"tier": "web"},
	}}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-eu", Name: "cart", Labels: map[string]string{"tier": "web"},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "cart", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("400m"),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		},
	}}}

	admission := fargate.Admit([]*v1alpha1.FargateProfile{profile}, pod, fargate.DefaultAbilities())
	admission.Apply(pod, "")
	fmt.Println("profile:  ", pod.Labels[fargate.ProfileLabel])
	fmt.Println("size:     ", pod.Annotations[fargate.CapacityProvisioned])
	fmt.Println("scheduler:", pod.Spec.SchedulerName)
	// Output:
	// profile:   apps
	// size:      0.5vCPU 2GB
	// scheduler: fargate-scheduler
}
