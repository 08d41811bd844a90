package incluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/region/awsapi"
)

func TestRolesInAWSAuth(t *testing.T) {
	s := tell(t)
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "aws-auth"}}
	t.Cleanup(func() { _ = s.kubectl.Delete(t.Context(), auth) })
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
	check(s.eks.MapRole(t.Context(), pods), ofPods+ofNodes+ofPods) // one for each profile
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
