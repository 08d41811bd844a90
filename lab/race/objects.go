package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// apply is one `kubectl apply` of several objects.
func apply(objects ...runtime.Object) action {
	return func(ctx context.Context, d *driver) error { return d.apply(ctx, objects...) }
}

// create creates a pod by one call.
func create(p *corev1.Pod) action {
	return func(ctx context.Context, d *driver) error {
		_, err := d.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	}
}

// scale sets the replicas of a Deployment.
func scale(name string, replicas int) action {
	return func(ctx context.Context, d *driver) error { return d.scale(ctx, name, replicas) }
}

// deployment is one whose pods request CPU and memory; "" is nothing.
func deployment(name string, replicas int32, cpu, memory string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(cpu, memory)},
		},
	}
}

func pod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceDefault}, Spec: podSpec(cpu, memory),
	}
}

func podSpec(cpu, memory string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "app", Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7",
			Resources: corev1.ResourceRequirements{Requests: requests(cpu, memory)},
		}},
	}
}

func requests(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// six are Deployments from small to large pods.
func six() []runtime.Object {
	var out []runtime.Object
	for i, size := range [][2]string{
		{"250m", "256Mi"}, {"500m", "1Gi"}, {"1", "1Gi"}, {"1", "4Gi"}, {"2", "4Gi"}, {"3", "8Gi"},
	} {
		out = append(out, deployment(fmt.Sprintf("app-%d", i+1), 60, size[0], size[1]))
	}
	return out
}
