package v1beta1

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichSecurityGroupsAPodIsIn(t *testing.T) {
	by := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	policy := func(pod, account *metav1.LabelSelector, groups ...string) SecurityGroupPolicy {
		return SecurityGroupPolicy{Spec: SecurityGroupPolicySpec{
			PodSelector: pod, ServiceAccountSelector: account, SecurityGroups: GroupIDs{Groups: groups},
		}}
	}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
	policies := []SecurityGroupPolicy{
		policy(by("web"), nil, "sg-web", "sg-all"), policy(&metav1.LabelSelector{}, nil, "sg-all"),
		policy(nil, by("payer"), "sg-pay"), policy(by("web"), by("payer"), "sg-both"),
		policy(nil, nil, "sg-none"), policy(broken, nil, "sg-broken"),
	}
	for _, x := range []struct {
		pod, account string
		want         []string
	}{
		{"web", "", []string{"sg-web", "sg-all"}},
		{"db", "", []string{"sg-all"}},
		{"db", "payer", []string{"sg-all", "sg-pay"}},
		{"web", "payer", []string{"sg-web", "sg-all", "sg-pay", "sg-both"}},
	} {
		got := GroupsOf(policies, map[string]string{"app": x.pod}, map[string]string{"app": x.account})
		if !slices.Equal(got, x.want) {
			t.Errorf("a pod %s of account %q is in %v, want %v", x.pod, x.account, got, x.want)
		}
	}
}
