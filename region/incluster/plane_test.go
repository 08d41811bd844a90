package incluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
	"github.com/nodeless/nodeless/region/incluster"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// story is the cluster behind EKS, and kubectl.
type story struct {
	*testing.T
	eks     *incluster.Cluster
	kubectl client.Client
	region  *region.Region
}

func tell(t *testing.T) *story {
	t.Helper()
	p := planetest.Start(t)
	if err := crds.Install(t.Context(), p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	r, err := region.Open(region.Config{Name: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	eks, err := incluster.New(p.RESTConfig(), r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	kubectl, err := client.New(p.RESTConfig(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(done); _ = eks.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return &story{t, eks, kubectl, r}
}

// profile returns a profile as EKS reports it, or nil if there is none of that name.
func (s *story) profile(name string) *awsapi.FargateProfile {
	s.Helper()
	all, err := s.eks.FargateProfiles(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for i := range all {
		if *all[i].FargateProfileName == name {
			return &all[i]
		}
	}
	return nil
}

func (s *story) status(name string, want types.FargateProfileStatus) *awsapi.FargateProfile {
	s.Helper()
	p := s.profile(name)
	if p == nil || p.Status != want {
		s.Fatalf("profile %s is %+v, want %s", name, p, want)
	}
	return p
}

// readied sets the condition that the controller sets on a profile.
func (s *story) readied(object string, status metav1.ConditionStatus, message string) {
	s.Helper()
	p := &v1alpha1.FargateProfile{}
	if err := s.kubectl.Get(s.Context(), client.ObjectKey{Name: object}, p); err != nil {
		s.Fatal(err)
	}
	apimeta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: v1alpha1.ReasonNoHost, Message: message,
	})
	if err := s.kubectl.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

func TestAProfileOfEKSIsAnObjectOfTheCluster(t *testing.T) {
	s := tell(t)
	in := types.FargateProfile{
		FargateProfileName: aws.String("Study_wildcard"), PodExecutionRoleArn: aws.String("arn:aws:iam::1:role/pods"),
		Subnets: []string{"subnet-a", "subnet-b"}, Tags: map[string]string{"team": "shop, \"1\""},
		Selectors: []types.FargateProfileSelector{{Namespace: aws.String("study-*"), Labels: map[string]string{"app": "w?b"}}},
	}
	if err := s.eks.CreateFargateProfile(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := s.eks.CreateFargateProfile(t.Context(), in); !errors.Is(err, awsapi.ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	s.status("Study_wildcard", types.FargateProfileStatusCreating)
	s.readied("study-wildcard", metav1.ConditionFalse, "no host")
	p := s.status("Study_wildcard", types.FargateProfileStatusActive)
	if *p.PodExecutionRoleArn != *in.PodExecutionRoleArn || !slices.Equal(p.Subnets, in.Subnets) ||
		p.Tags["team"] != in.Tags["team"] || p.Selectors[0].Labels["app"] != "w?b" || p.UID == "" || p.CreatedAt.IsZero() ||
		len(p.Health.Issues) != 1 || *p.Health.Issues[0].Message != "no host" {
		t.Errorf("%+v", p)
	}
	if err := s.eks.TagFargateProfile(t.Context(), "Study_wildcard", nil); err != nil || len(s.profile("Study_wildcard").Tags) > 0 {
		t.Errorf("tags stay: %v", err)
	}
	// A pod may select the profile by either name.
	object := &v1alpha1.FargateProfile{}
	if err := s.kubectl.Get(t.Context(), client.ObjectKey{Name: "study-wildcard"}, object); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "study-1", Labels: map[string]string{
		"app": "web", fargate.ProfileLabel: "Study_wildcard",
	}}}
	if c := fargate.Choose([]*v1alpha1.FargateProfile{object}, pod); c.Profile != object {
		t.Errorf("chosen: %+v", c)
	}

	in.FargateProfileName, in.Selectors[0].Namespace = aws.String("wrong"), aws.String("Study")
	var refused *region.APIError
	if err := s.eks.CreateFargateProfile(t.Context(), in); !errors.As(err, &refused) ||
		refused.Code != "InvalidParameterException" {
		t.Errorf("a namespace with capitals: %v", err)
	}
}

func TestAProfileThatKubectlCreatesIsAmongThoseOfEKS(t *testing.T) {
	s := tell(t)
	object := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: "by-kubectl"}}
	object.Spec.Selectors = []v1alpha1.FargateProfileSelector{{Namespace: "shop"}}
	if err := s.kubectl.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	p := s.status("by-kubectl", types.FargateProfileStatusCreating)
	if *p.Selectors[0].Namespace != "shop" || p.PodExecutionRoleArn != nil {
		t.Errorf("%+v", p)
	}
	if err := s.kubectl.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if p := s.profile("by-kubectl"); p != nil {
		t.Errorf("it is still there: %+v", p)
	}
}

func TestDeletingAProfileDeletesItsPods(t *testing.T) {
	s := tell(t)
	namespace := planetest.Namespace(t, planetest.Start(t))
	err := s.eks.CreateFargateProfile(t.Context(), types.FargateProfile{
		FargateProfileName: aws.String("doomed"), PodExecutionRoleArn: aws.String("arn:aws:iam::1:role/pods"),
		Selectors: []types.FargateProfileSelector{{Namespace: &namespace}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, scheduler := range map[string]string{"mine": fargate.SchedulerName, "other": corev1.DefaultSchedulerName} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{fargate.ProfileLabel: "doomed"},
			Finalizers: []string{"example.com/held"},
		}}
		pod.Spec.SchedulerName = scheduler
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		if err := s.kubectl.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.release(context.Background(), namespace, name) })
	}
	if err := s.eks.DeleteFargateProfile(t.Context(), "doomed"); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "its pod is deleted", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := s.kubectl.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "mine"}, pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return errors.New("not yet")
		}
		return nil
	})
	s.status("doomed", types.FargateProfileStatusDeleting)
	s.release(t.Context(), namespace, "mine")
	planetest.Eventually(t, "the profile is gone", func(context.Context) error {
		if p := s.profile("doomed"); p != nil {
			return fmt.Errorf("it is %s", p.Status)
		}
		return nil
	})
	other := &corev1.Pod{}
	if err := s.kubectl.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "other"}, other); err != nil ||
		other.DeletionTimestamp != nil {
		t.Errorf("a pod of another scheduler is not the profile's: %v", err)
	}
}

// release lets the deletion of a pod complete.
func (s *story) release(ctx context.Context, namespace, name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_ = s.kubectl.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	_ = s.kubectl.Delete(ctx, pod, client.GracePeriodSeconds(0))
}

func TestANodeOfAGroupIsDrainedBeforeItsInstanceEnds(t *testing.T) {
	s := tell(t)
	instance, group := s.nodegroup()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: planetest.Namespace(t, planetest.Start(t))}}
	node.Spec.ProviderID = "aws:///us-west-2a/" + instance
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: node.Name, Name: "slow", Finalizers: []string{"example.com/held"},
	}}
	pod.Spec.NodeName, pod.Spec.Containers = node.Name, []corev1.Container{{Name: "c", Image: "i"}}
	for _, o := range []client.Object{node, pod} {
		if err := s.kubectl.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = s.kubectl.Delete(context.Background(), node) })
	if err := s.region.SetDesiredCapacity(group, 0, false); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the node is cordoned and its pod deleted", func(ctx context.Context) error {
		n, p := &corev1.Node{}, &corev1.Pod{}
		err := errors.Join(s.kubectl.Get(ctx, client.ObjectKeyFromObject(node), n),
			s.kubectl.Get(ctx, client.ObjectKeyFromObject(pod), p))
		if err == nil && (!n.Spec.Unschedulable || p.DeletionTimestamp == nil) {
			err = errors.New("not yet")
		}
		return err
	})
	if i, _ := s.region.Instance(instance); i.State != region.Running {
		t.Errorf("while the pod ends the instance is %s", i.State)
	}
	s.release(t.Context(), pod.Namespace, pod.Name)
	planetest.Eventually(t, "the instance ends", func(context.Context) error {
		if i, _ := s.region.Instance(instance); i.State != region.Terminated {
			return fmt.Errorf("it is %s", i.State)
		}
		return nil
	})
}

// nodegroup creates a node group of one instance and returns the instance and the Auto Scaling group.
func (s *story) nodegroup() (instance, group string) {
	s.Helper()
	if err := s.region.SetCluster(region.ClusterInfo{Name: "prod", Version: "1.36"}); err != nil {
		s.Fatal(err)
	}
	n, err := s.region.CreateNodegroup("prod", "web", region.NodegroupSettings{
		Max: 1, Desired: 1, Subnets: []string{s.region.Subnets()[0].ID}, Role: "arn:aws:iam::123456789012:role/nodes",
		Drain: true,
	})
	if err != nil {
		s.Fatal(err)
	}
	planetest.Eventually(s.T, "the instance runs", func(context.Context) error {
		for _, g := range s.region.AutoScalingGroups() {
			for _, m := range g.Members {
				if instance = m.ID; m.Lifecycle == region.LifecycleInService {
					return nil
				}
			}
		}
		return errors.New("not yet")
	})
	return instance, n.Group
}

func TestAddonsHaveTheVersionsOfTheirImages(t *testing.T) {
	s := tell(t)
	if all, err := s.eks.Addons(t.Context()); err != nil || len(all) > 0 {
		t.Fatalf("%v, %v", all, err)
	}
	coredns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"}}
	coredns.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	coredns.Spec.Template.Labels = coredns.Spec.Selector.MatchLabels
	coredns.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "coredns", Image: "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2",
	}}
	if err := s.kubectl.Create(t.Context(), coredns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.kubectl.Delete(context.Background(), coredns) })
	all, err := s.eks.Addons(t.Context())
	if err != nil || len(all) != 1 || *all[0].AddonName != "coredns" || *all[0].AddonVersion != "v1.11.4-eksbuild.2" ||
		all[0].Status != types.AddonStatusDegraded {
		t.Errorf("%+v, %v", all, err)
	}
}
