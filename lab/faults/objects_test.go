package faults

import (
	"fmt"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// pool returns the story's NodePool, with the limits.
func pool() *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(limits.cpuLimit))}
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidateAfter:    karpv1.MustParseNillableDuration("20s"),
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		Budgets:             []karpv1.Budget{{Nodes: fmt.Sprint(limits.disrupting)}},
	}
	p.Spec.Template.Labels = map[string]string{"team": "a"}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "class",
	}
	p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}},
	}
	return p
}

// class returns its node class.
func class() *ec2v1.EC2NodeClass {
	c := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	tags := map[string]string{"karpenter.sh/discovery": "nodeless"}
	c.Spec = ec2v1.EC2NodeClassSpec{
		Role: "nodeless-node", AMISelectorTerms: []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}},
		SubnetSelectorTerms:        []ec2v1.SubnetSelectorTerm{{Tags: tags}},
		SecurityGroupSelectorTerms: []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}},
	}
	return c
}

// app returns a ReplicaSet of pods that request the given CPU.
func app(name string, replicas int32, cpu string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.Replicas, set.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	set.Spec.Template.Labels = map[string]string{"app": name}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return set
}

// job returns a pod that works for half a minute.
func job(n int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("job-", n), Labels: map[string]string{"app": "jobs"},
		Annotations: map[string]string{"nodeless.sh/run-for": "30s"},
	}}
	pod.Spec = app("jobs", 0, "300m").Spec.Template.Spec
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return pod
}

// apart puts each of an app's pods on a node of its own.
func apart(set *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: set.Spec.Selector,
			TopologyKey:   corev1.LabelHostname,
		}},
	}}
	return set
}

// spread keeps an app's pods balanced across zones.
func spread(set *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	set.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: set.Spec.Selector,
	}}
	return set
}

// budget returns a budget that keeps the given number of an app's pods available.
func budget(name string, available int) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	b.Spec.MinAvailable = ptr.To(intstr.FromInt32(int32(available))) //nolint:gosec // small
	return b
}
