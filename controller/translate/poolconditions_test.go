package translate

import (
	"testing"

	_ "github.com/aws/karpenter-provider-aws/pkg/apis/v1" // makes its labels well known
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func poolThatRequires(group, kind string, operator corev1.NodeSelectorOperator, key string) *karpv1.NodePool {
	np := &karpv1.NodePool{}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: kind, Name: "default"}
	np.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key: key, Operator: operator,
		Values: []string{"c"},
	}}
	return np
}

func TestRequirementsThatLookLikeOnesOnInstancesAndAreNone(t *testing.T) {
	for key, want := range map[string]string{
		"eks.amazonaws.com/instance-category":     "karpenter.k8s.aws/instance-category",
		"eks.amazonaws.com/capacityType":          "karpenter.sh/capacity-type",
		"karpenter.k8s.aws/instance-categroy":     "karpenter.k8s.aws/instance-category",
		"karpenter.sh/capacityType":               "karpenter.sh/capacity-type",
		"node.kubernetes.io/instance_type":        "node.kubernetes.io/instance-type",
		"eks.amazonaws.com/compute-type":          "",
		"topology.kubernetes.io/availabilityzone": "",
	} {
		got := UnknownKeys(poolThatRequires("karpenter.k8s.aws", "EC2NodeClass", corev1.NodeSelectorOpIn, key))
		if len(got) != 1 || got[0].Key != key || got[0].Instead != want ||
			got[0].Field != "spec.template.spec.requirements[0]" {
			t.Errorf("%s: %+v, want to write %q", key, got, want)
		}
	}
}

func TestRequirementsThatAreAsTheyShouldBe(t *testing.T) {
	for key, operator := range map[string]corev1.NodeSelectorOperator{
		"karpenter.k8s.aws/instance-category": corev1.NodeSelectorOpIn, "karpenter.sh/capacity-type": corev1.NodeSelectorOpIn,
		"topology.kubernetes.io/zone":            corev1.NodeSelectorOpIn,
		"failure-domain.beta.kubernetes.io/zone": corev1.NodeSelectorOpIn,
		"topology.k8s.aws/zone-id":               corev1.NodeSelectorOpIn, "team": corev1.NodeSelectorOpIn,
		"example.com/disk":                    corev1.NodeSelectorOpIn,
		"node-restriction.kubernetes.io/team": corev1.NodeSelectorOpIn,
		"eks.amazonaws.com/compute-type":      corev1.NodeSelectorOpDoesNotExist,
		"karpenter.k8s.aws/ec2nodeclass":      corev1.NodeSelectorOpIn,
	} {
		if got := UnknownKeys(poolThatRequires("karpenter.k8s.aws", "EC2NodeClass", operator, key)); got != nil {
			t.Errorf("%s %s: %v", key, operator, got)
		}
	}
}

// A pool may leave it to its pods whether their nodes have the label of EKS Auto Mode.
func TestALabelForThoseWhoSelectIt(t *testing.T) {
	if got := UnknownKeys(poolThatRequires("karpenter.k8s.aws", "EC2NodeClass", corev1.NodeSelectorOpNotIn,
		"eks.amazonaws.com/compute-type")); got != nil {
		t.Errorf("got %v", got)
	}
}

// The two classes have the same labels under different prefixes: each one's labels do not work on the other.
func TestKeysOfAutoModeAreKnownOnItsOwnPools(t *testing.T) {
	for key, want := range map[string]string{
		"eks.amazonaws.com/instance-category": "known", "eks.amazonaws.com/compute-type": "known",
		"eks.amazonaws.com/nodeclass": "known", "karpenter.sh/capacity-type": "known", "team": "known",
		"karpenter.k8s.aws/instance-category": "eks.amazonaws.com/instance-category",
		"eks.amazonaws.com/instance-categroy": "eks.amazonaws.com/instance-category",
		"karpenter.k8s.aws/ec2nodeclass":      "",
	} {
		got := UnknownKeys(poolThatRequires("eks.amazonaws.com", "NodeClass", corev1.NodeSelectorOpIn, key))
		if want == "known" && got == nil {
			continue
		}
		if len(got) != 1 || got[0].Instead != want || got[0].Class != "NodeClass" {
			t.Errorf("%s: %+v, want to write %q", key, got, want)
		}
	}
}
