package automode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
)

// Names and label of the built-in objects.
const (
	generalPurpose = "general-purpose"
	system         = "system"
	className      = "default"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "eks"
)

// Pools returns the names of the built-in NodePools.
func Pools() []string { return []string{generalPurpose, system} }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{labelManagedBy: managedBy}}
}

// nodePool returns a built-in NodePool as EKS creates it (Amazon EKS user guide, "Enable or Disable Built-in
// NodePools"): system differs in its taint and in its architectures.
func nodePool(name string) *karpv1.NodePool {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	arch := []string{"amd64"}
	var taints []corev1.Taint
	if name == system {
		arch = append(arch, "arm64")
		taints = []corev1.Taint{{Key: "CriticalAddonsOnly", Effect: corev1.TaintEffectNoSchedule}}
	}
	generation := karpv1.NodeSelectorRequirementWithMinValues{
		Key: "eks.amazonaws.com/instance-generation", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"},
	}
	pool := &karpv1.NodePool{ObjectMeta: meta(name)}
	pool.Spec.Disruption = karpv1.Disruption{
		ConsolidateAfter:    karpv1.MustParseNillableDuration("30s"),
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		Budgets:             []karpv1.Budget{{Nodes: "10%"}},
	}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{
			Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: className,
		},
		ExpireAfter:            karpv1.MustParseNillableDuration("336h"),
		TerminationGracePeriod: &metav1.Duration{Duration: 24 * time.Hour},
		Taints:                 taints,
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand),
			in("eks.amazonaws.com/instance-category", "c", "m", "r"), generation,
			in(corev1.LabelArchStable, arch...), in(corev1.LabelOSStable, "linux"),
		},
	}
	return pool
}

// nodeClass returns the built-in NodeClass, with the defaults of its definition.
func nodeClass(spec eksv1.NodeClassSpec) *eksv1.NodeClass {
	c := &eksv1.NodeClass{ObjectMeta: meta(className), Spec: *spec.DeepCopy()}
	c.Spec.SNATPolicy, c.Spec.NetworkPolicy, c.Spec.NetworkPolicyEventLogs = "Random", "DefaultAllow", "Disabled"
	if c.Spec.EphemeralStorage == nil {
		c.Spec.EphemeralStorage = &eksv1.EphemeralStorage{
			Size: ptr.To(resource.MustParse("80Gi")), IOPS: ptr.To(int64(3000)), Throughput: ptr.To(int64(125)),
		}
	}
	return c
}

// DiscoveredClass returns the spec of a NodeClass with a role, and with the subnets and security groups whose tag
// karpenter.sh/discovery has the cluster's name.
func DiscoveredClass(role, cluster string) eksv1.NodeClassSpec {
	tags := map[string]string{"karpenter.sh/discovery": cluster}
	return eksv1.NodeClassSpec{
		Role:                       role,
		SubnetSelectorTerms:        []eksv1.SubnetSelectorTerm{{Tags: tags}},
		SecurityGroupSelectorTerms: []eksv1.SecurityGroupSelectorTerm{{Tags: tags}},
	}
}
