package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deployment returns a Deployment whose pods request CPU and memory; "" requests none.
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

// six returns Deployments with small to large pods.
func six() []runtime.Object {
	var out []runtime.Object
	for i, size := range [][2]string{
		{"250m", "256Mi"}, {"500m", "1Gi"}, {"1", "1Gi"}, {"1", "4Gi"}, {"2", "4Gi"}, {"3", "8Gi"},
	} {
		out = append(out, deployment(fmt.Sprintf("app-%d", i+1), 60, size[0], size[1]))
	}
	return out
}

// updated returns the Deployment with a changed pod template and the default surge of Kubernetes.
func updated(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Template.Annotations = map[string]string{"version": "2"}
	return d
}

// wave returns Jobs number from to to, which run evenly distributed times of one to five minutes.
func wave(from, to int) []runtime.Object {
	var out []runtime.Object
	for i := from; i < to; i++ {
		spec := podSpec("500m", "1Gi")
		spec.RestartPolicy = corev1.RestartPolicyNever
		// 37 and 241 are coprime: each length from 60 to 300 s is equally frequent, and no wave has most of the long
		// ones.
		spec.Containers[0].Command = []string{"sleep", fmt.Sprint(60 + i*37%241)}
		out = append(out, &batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d", i), Namespace: corev1.NamespaceDefault},
			Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
		})
	}
	return out
}

// spread returns Deployments with constraints between their pods.
func spread() []runtime.Object {
	zones := deployment("zones", 40, "500m", "1Gi")
	zones.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: zones.Spec.Selector,
	}}
	return []runtime.Object{
		zones, apart(deployment("hosts", 12, "1", "2Gi"), corev1.LabelHostname),
		apart(deployment("quorum", 3, "1", "4Gi"), corev1.LabelTopologyZone),
	}
}

// fifty returns Deployments of 50 pods that share no node, and of 150 small ones.
func fifty() []runtime.Object {
	return []runtime.Object{
		apart(deployment("apart", 50, "1500m", "2Gi"), corev1.LabelHostname), deployment("beside", 150, "50m", "64Mi"),
	}
}

// apart makes every two pods of the Deployment run in different domains.
func apart(d *appsv1.Deployment, key string) *appsv1.Deployment {
	d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: d.Spec.Selector,
		}},
	}}
	return d
}

// budgets returns Deployments with typical PodDisruptionBudgets.
func budgets() []runtime.Object {
	out := []runtime.Object{deployment("free", 15, "1", "2Gi")}
	for _, b := range []struct {
		name    string
		missing intstr.IntOrString
	}{{"one", intstr.FromInt32(1)}, {"half", intstr.FromString("50%")}, {"none", intstr.FromInt32(0)}} {
		d := deployment(b.name, 15, "1", "2Gi")
		out = append(out, d, &policyv1.PodDisruptionBudget{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
			ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: d.Namespace},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &b.missing, Selector: d.Spec.Selector},
		})
	}
	return out
}

// daemonSet returns a DaemonSet whose pods preempt others.
func daemonSet(name, cpu, memory string) *appsv1.DaemonSet {
	d := deployment(name, 1, cpu, memory)
	d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
	return &appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: d.ObjectMeta,
		Spec: appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
}
