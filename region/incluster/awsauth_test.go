package incluster_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

func TestRolesInAWSAuth(t *testing.T) {
	s := tell(t)
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "aws-auth"}}
	t.Cleanup(func() { _ = s.kubectl.Delete(context.Background(), auth) })
	check := func(err error, want string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.kubectl.Get(t.Context(), client.ObjectKeyFromObject(auth), auth); err != nil {
			t.Fatal(err)
		}
		if got := auth.Data["mapRoles"]; got != want {
			t.Errorf("mapRoles:\n%s\nwant:\n%s", got, want)
		}
	}
	pods := awsapi.NodeRole{
		ARN: "arn:aws:iam::1:role/pods", Username: "system:node:{{SessionName}}",
		Groups: []string{"system:node-proxier", "system:nodes"}, Fargate: true,
	}
	nodes := awsapi.NodeRole{
		ARN: "arn:aws:iam::1:role/nodes", Username: "system:node:{{EC2PrivateDNSName}}", Groups: []string{"system:nodes"},
	}
	ofPods := `- groups:
  - system:bootstrappers
  - system:node-proxier
  - system:nodes
  rolearn: arn:aws:iam::1:role/pods
  username: system:node:{{SessionName}}
`
	ofNodes := `- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: arn:aws:iam::1:role/nodes
  username: system:node:{{EC2PrivateDNSName}}
`
	check(s.eks.MapRole(t.Context(), pods), ofPods)
	check(s.eks.MapRole(t.Context(), nodes), ofPods+ofNodes)
	check(s.eks.MapRole(t.Context(), pods), ofPods+ofNodes+ofPods) // one entry for each profile
	check(s.eks.MapRole(t.Context(), nodes), ofPods+ofNodes+ofPods)

	users := "- rolearn: arn:aws:iam::1:role/admin\n  username: admin\n"
	auth.Data["mapRoles"] = users + auth.Data["mapRoles"]
	if err := s.kubectl.Update(t.Context(), auth); err != nil {
		t.Fatal(err)
	}
	check(s.eks.UnmapRole(t.Context(), pods), users+ofNodes+ofPods)
	check(s.eks.UnmapRole(t.Context(), nodes), users+ofPods)
	check(s.eks.UnmapRole(t.Context(), nodes), users+ofPods)

	auth.Data["mapRoles"] = "no list"
	if err := s.kubectl.Update(t.Context(), auth); err != nil {
		t.Fatal(err)
	}
	check(s.eks.MapRole(t.Context(), pods), "no list")
}

func TestWhoUsesTheClusterByAWSAuth(t *testing.T) {
	s := tell(t)
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "aws-auth"}}
	auth.Data = map[string]string{
		"mapRoles": "- {rolearn: 'arn:aws:iam::123456789012:role/CI', username: 'ci:{{SessionName}}', groups: ['team:{{AccountID}}']}",
		"mapUsers": "- {userarn: 'arn:aws:iam::123456789012:user/staff/ann', username: ann, groups: [viewers]}",
	}
	if err := s.kubectl.Create(t.Context(), auth); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.kubectl.Delete(context.Background(), auth) })
	role := awsapi.Caller{
		ARN: "arn:aws:sts::123456789012:assumed-role/ci/me@example.com", UserID: "AROA1:me@example.com", Session: "me@example.com",
		Principal: &region.Principal{Kind: region.RolePrincipal, Name: "ci", Path: "/deep/"},
	}
	ann := awsapi.Caller{Principal: &region.Principal{Kind: region.UserPrincipal, Name: "ann", Path: "/staff/"}}
	bob := awsapi.Caller{Principal: &region.Principal{Kind: region.UserPrincipal, Name: "bob", Path: "/"}}
	root := awsapi.Caller{ARN: "arn:aws:iam::123456789012:root", UserID: "123456789012"}
	for _, c := range []struct {
		who         awsapi.Caller
		name, group string
	}{
		{role, "ci:me-example.com", "team:123456789012"}, {ann, "ann", "viewers"}, {root, root.ARN, "system:masters"},
	} {
		u, err := s.eks.User(t.Context(), c.who)
		if err != nil || u.GetName() != c.name || len(u.GetGroups()) != 1 || u.GetGroups()[0] != c.group {
			t.Errorf("%s: %+v, %v; want %s of %s", c.who.ARN, u, err, c.name, c.group)
		}
	}
	if u, err := s.eks.User(t.Context(), bob); err == nil || !strings.Contains(err.Error(), "user/bob is in no entry of mapUsers") {
		t.Errorf("%+v, %v", u, err)
	}
}
