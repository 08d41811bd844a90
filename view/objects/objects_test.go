package objects

import (
	"reflect"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/controller/rbac"
)

// All kinds that are shown are in the view role: a kind without a permission check would be shown to everyone.
func TestShownKindsAreThoseOfTheViewRole(t *testing.T) {
	for _, k := range Kinds {
		if !slices.ContainsFunc(rbac.ViewRules(), func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, k.Group) && slices.Contains(r.Resources, k.Resource)
		}) {
			t.Errorf("%s is shown, and not in the role for those who look", k.GroupResource())
		}
		if k.Resource == "secrets" || k.Resource == "configmaps" {
			t.Errorf("%s are shown", k.Resource)
		}
	}
}

func TestAnObjectLeadsToWhatItIsMadeFrom(t *testing.T) {
	for text, want := range map[string][]Ref{
		`{metadata: {namespace: shop, labels: {eks.amazonaws.com/fargate-profile: small},
		  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1}]}}`: {
			{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}, {Kind: "FargateProfile", Name: "small"},
		},
		`{metadata: {ownerReferences: [{apiVersion: karpenter.sh/v1, kind: NodePool, name: general}]},
		  spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}}}`: {
			{Kind: "NodePool", Name: "general"}, {Kind: "NodeClass", Name: "default"},
		},
		`{metadata: {labels: {eks.amazonaws.com/fargate-profile: small}},
		  spec: {nodeClassRef: {group: nodeless.sh, kind: FargateProfile, name: small}}}`: {
			{Kind: "FargateProfile", Name: "small"},
		},
		`{spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: arm}}}}}`: {
			{Kind: "EC2NodeClass", Name: "arm"},
		},
		`{metadata: {namespace: shop, ownerReferences: [{apiVersion: v1, kind: Secret, name: key},
		  {apiVersion: argoproj.io/v1alpha1, kind: Deployment, name: other}]}, spec: {nodeClassRef: {name: 1}}}`: nil,
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if got := refs(o); !reflect.DeepEqual(got, want) {
			t.Errorf("%s leads to %+v, want %+v", text, got, want)
		}
	}
}
