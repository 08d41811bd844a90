package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// sound returns a cluster without faults except those that the test makes: refused lists the verbs and resources that
// the caller may not use.
func sound(t *testing.T, refused []string, objects ...client.Object) Cluster {
	t.Helper()
	for _, d := range crds.All() {
		if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == d.Name }) {
			objects = append(objects, d)
		}
	}
	kube := fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SelfSubjectAccessReview)
			a := review.Spec.ResourceAttributes
			review.Status.Allowed = !slices.Contains(refused, a.Verb+" "+a.Resource)
			return nil
		},
	}).Build()
	return Cluster{
		Client: kube, Asked: kube, Version: "v1.36.2", Needed: rbac.Objects("kube-system", "lease"), Namespace: "kube-system",
	}
}

func class(name string, ready metav1.ConditionStatus, message string) *ec2v1.EC2NodeClass {
	c := &ec2v1.EC2NodeClass{}
	c.Name = name
	c.Status.Conditions = []status.Condition{{Type: "SubnetsReady", Status: ready, Message: message}}
	return c
}

// found returns the finding of a check.
func found(t *testing.T, c Cluster, check string) Finding {
	t.Helper()
	all := Examine(t.Context(), c)
	for _, f := range all {
		if f.Check == check {
			wantRemedy(t, f)
			return f
		}
	}
	t.Fatalf("no check %q in %+v", check, all)
	return Finding{}
}

func wantRemedy(t *testing.T, f Finding) {
	t.Helper()
	if (f.Status == OK) != (f.Remedy == "") {
		t.Errorf("%+v: what is wrong or unknown has a remedy, what is not has none", f)
	}
}

func TestASoundClusterIsReady(t *testing.T) {
	for _, f := range Examine(t.Context(), sound(t, nil, class("default", "True", ""))) {
		if f.Status != OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestEachFaultIsNamed(t *testing.T) {
	served := crds.All()[0].DeepCopy()
	for i := range served.Spec.Versions {
		served.Spec.Versions[i].Served = false
	}
	fail, hops := admissionv1.Fail, int64(2)
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policies"}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "pods.example.com", FailurePolicy: &fail,
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "kyverno", Name: "hook"},
			},
			Rules: covering("", "pods"),
		}},
	}
	open := class("open", "True", "")
	open.Spec.MetadataOptions = &ec2v1.MetadataOptions{HTTPPutResponseHopLimit: &hops}
	for name, c := range map[string]struct {
		cluster     Cluster
		change      func(*Cluster)
		check, says string
		status      Status
	}{
		"an old control plane": {
			sound(t, nil), func(c *Cluster) { c.Version = "v1.28.9-eks-1" }, "Kubernetes", "older than 1.29", Failed,
		},
		"a kind that is not served": {sound(t, nil, served), nil, "Kubernetes", served.Spec.Names.Kind, Failed},
		"a right that is missing": {
			sound(t, []string{"create pods", "patch nodes"}), nil, "permissions", "create pods/binding, create pods/eviction, patch nodes", Failed,
		},
		"a webhook without endpoints": {sound(t, nil, hook), nil, "webhooks", "pods.example.com of policies (service kyverno/hook)", Failed},
		"no class":                    {sound(t, nil), nil, "node classes", "no EC2NodeClass", Warning},
		"only a NodeClass of EKS Auto Mode": {
			sound(t, nil, &eksv1.NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}), nil, "node classes",
			"NodeClass default", OK,
		},
		"only a NodeGroup": {
			sound(t, nil, &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}), nil, "node classes",
			"NodeGroup workers", OK,
		},
		"a class without subnets": {sound(t, nil, class("a", "False", "no subnet has the tag")), nil, "node classes", "a: no subnet has the tag", Failed},
		"a class that nobody looked at": {
			sound(t, nil, class("a", "Unknown", "")), nil, "node classes", "no controller has looked at a", Unknown,
		},
		"a hop limit of 2": {sound(t, nil, open), nil, "instance metadata", "open (hop limit 2)", Warning},
		"a slow clock":     {sound(t, nil), func(c *Cluster) { c.Ahead = -2 * time.Minute }, "clocks", "-2m0s", Failed},
	} {
		if c.change != nil {
			c.change(&c.cluster)
		}
		if f := found(t, c.cluster, c.check); f.Status != c.status || !strings.Contains(f.Says, c.says) {
			t.Errorf("%s: %+v, want %s: %s", name, f, c.status, c.says)
		}
	}
}

// refusing returns a client each request of which fails.
func refusing(err error) client.Client {
	return fake.NewClientBuilder().WithScheme(Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
		List:   func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err },
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err },
	}).Build()
}

// A check that could not run says what to do, too, in words that fit why it could not.
func TestWhatIsUnknownHasARemedy(t *testing.T) {
	for want, err := range map[string]error{
		"credentials": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil),
		"log in":      apierrors.NewUnauthorized("expired"),
		"nodeless crds | kubectl apply --server-side -f -": &meta.NoKindMatchError{
			GroupKind: schema.GroupKind{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass"},
		},
		"ask again": errors.New("the connection was lost"),
	} {
		c := sound(t, nil)
		c.Client, c.Asked = refusing(err), refusing(err)
		for _, f := range Examine(t.Context(), c) {
			if wantRemedy(t, f); f.Status == Unknown && !strings.Contains(f.Remedy, want) {
				t.Errorf("%+v, want %s", f, want)
			}
		}
	}
	c := account(t, demoPolicy(t))
	c.Client, c.AWS.Role = refusing(errors.New("the connection was lost")), "arn:aws:iam::123456789012:role/nobody"
	for _, check := range []string{"node classes", "addresses", "AWS permissions"} {
		if f := found(t, c, check); f.Status != Unknown {
			t.Errorf("%+v", f)
		}
	}
}

// Permissions are those of the identity that is asked about; everything else is read with the caller's own.
func TestAnotherIdentityIsAskedOnlyForItsPermissions(t *testing.T) {
	c := sound(t, nil, class("default", "True", ""))
	c.Client, c.Asked = sound(t, []string{"create pods"}, class("default", "True", "")).Client, c.Client
	for _, f := range Examine(t.Context(), c) {
		if f.Status != OK {
			t.Errorf("%+v", f)
		}
	}
	c.Client, c.Asked = c.Asked, c.Client
	if f := found(t, c, "permissions"); f.Status != Failed || !strings.Contains(f.Says, "create pods/eviction") {
		t.Errorf("%+v", f)
	}
}

// covering returns the rules of a webhook for a resource of an API group.
func covering(group, resource string) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}}
}

func TestAWebhookWithAReadyEndpointDoesNotBlock(t *testing.T) {
	hook := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []admissionv1.MutatingWebhook{{
			Name: "pods.example.com", ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "n", Name: "hook"},
			},
			Rules: covering("*", "*"),
		}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
	if f := found(t, sound(t, nil, hook, slice), "webhooks"); f.Status != OK {
		t.Errorf("%+v", f)
	}
	if f := found(t, sound(t, nil, hook), "webhooks"); f.Status != Failed {
		t.Errorf("without the endpoint: %+v", f)
	}
	ignore := admissionv1.Ignore
	hook.Webhooks[0].FailurePolicy = &ignore
	if f := found(t, sound(t, nil, hook), "webhooks"); f.Status != OK {
		t.Errorf("one that fails open: %+v", f)
	}
}

// A webhook blocks nodes only if it covers the resources that launching and removing them needs, each in its group.
func TestWebhooksOfOtherGroupsDoNotBlock(t *testing.T) {
	for _, c := range []struct {
		group, resource string
		want            Status
	}{
		{"cert-manager.io", "*/*", OK},
		{"metrics.k8s.io", "pods", OK},
		{"apps", "*", OK},
		{"", "services", OK},
		{"", "pods", Failed},
		{"", "*/*", Failed},
		{"", "pods/*", Failed},
		{"*", "*/eviction", Failed},
		{"", "nodes/status", OK},
		{"karpenter.sh", "nodeclaims", Failed},
		{"karpenter.sh", "*", Failed},
		{"coordination.k8s.io", "leases", Failed},
		{"coordination.k8s.io", "*/*", Failed},
	} {
		hook := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "w.example.com", ClientConfig: admissionv1.WebhookClientConfig{
					Service: &admissionv1.ServiceReference{Namespace: "n", Name: "hook"},
				},
				Rules: covering(c.group, c.resource),
			}},
		}
		if f := found(t, sound(t, nil, hook), "webhooks"); f.Status != c.want {
			t.Errorf("%s of group %q: %+v, want %s", c.resource, c.group, f, c.want)
		}
	}
}

// account returns a region with a role that has the policy, and a cluster in it whose class AWS alone resolves.
func account(t *testing.T, policy iampolicy.Document) Cluster {
	t.Helper()
	r, err := region.Open(region.Config{
		Name: "us-west-2", Discovery: "demo", Clock: clock.NewVirtual(time.Now()), SubnetBits: 28,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.SetCluster(region.ClusterInfo{Name: "demo", Version: "1.36"}); err != nil {
		t.Fatal(err)
	}
	const trust = `{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "123456789012"}}}`
	if _, err := r.CreatePrincipal(region.RolePrincipal, "controller", "/", trust, nil); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.PutPolicy(region.RolePrincipal, "controller", "nodeless", string(text)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(awsapi.New(r, awsapi.Options{}))
	t.Cleanup(server.Close)
	own := &ec2v1.EC2NodeClass{}
	own.Name, own.Spec.Role = "default", "nodeless-node"
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	own.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: tags}}
	own.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}}
	own.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	c := sound(t, nil, own)
	c.AWS = &AWS{
		Config: awssdk.Config{
			Region: "us-west-2", BaseEndpoint: &server.URL,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		},
		Scope: iampolicy.Scope{Cluster: "demo", Region: "us-west-2"}, Queue: "demo", Clock: clock.Real{},
		Role: "arn:aws:iam::123456789012:role/controller",
	}
	return c
}

func demoPolicy(t *testing.T) iampolicy.Document {
	t.Helper()
	s, err := iampolicy.Scope{
		Cluster: "demo", Region: "us-west-2", Account: region.AccountID, NodeRole: "nodeless-node",
	}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return s.Controller()
}

func TestAWSIsAsked(t *testing.T) {
	c := account(t, demoPolicy(t))
	for check, says := range map[string]string{
		"node classes": "default (", "interruption queue": "demo is there", "clocks": "AWS",
		"AWS permissions": "role/controller has all",
	} {
		if f := found(t, c, check); f.Status != OK || !strings.Contains(f.Says, says) {
			t.Errorf("%+v, want %s", f, says)
		}
	}
	if f := found(t, c, "addresses"); f.Status != Warning || !strings.Contains(f.Says, "has 11") { // /28 less EC2's five
		t.Errorf("%+v", f)
	}
	c.AWS.Queue = "elsewhere"
	if f := found(t, c, "interruption queue"); f.Status != Failed || !strings.Contains(f.Says, "NonExistentQueue") {
		t.Errorf("%+v", f)
	}
}

// Whichever action is missing is named, and no other.
func TestEachMissingPermissionIsNamed(t *testing.T) {
	for i, s := range demoPolicy(t).Statement {
		for j, action := range s.Action {
			policy := demoPolicy(t)
			policy.Statement[i].Action = slices.Delete(slices.Clone(s.Action), j, j+1)
			if len(policy.Statement[i].Action) == 0 {
				policy.Statement = slices.Delete(policy.Statement, i, i+1)
			}
			c := account(t, policy)
			f := c.AWS.permissions(t.Context(), region.AccountID, "", []ec2v1.EC2NodeClass{{
				Spec: ec2v1.EC2NodeClassSpec{Role: "nodeless-node"},
			}})
			want := "arn:aws:iam::123456789012:role/controller lacks " + action + " (" + s.Sid + ")"
			if f.Status != Failed || f.Says != want {
				t.Errorf("%+v, want %s", f, want)
			}
		}
	}
}

func TestTheRoleOfASession(t *testing.T) {
	for arn, want := range map[string]string{
		"arn:aws-cn:sts::1:assumed-role/r/s": "arn:aws-cn:iam::1:role/r", "arn:aws:iam::1:user/u": "arn:aws:iam::1:user/u",
	} {
		if got := roleOf(arn); got != want {
			t.Errorf("%s: %s", arn, got)
		}
	}
}
