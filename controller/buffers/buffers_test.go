package buffers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// story is one test's cluster: the shared API server, and a controller that can be restarted.
type story struct {
	*testing.T
	api    client.Client
	region *region
	ns     string
	stop   func()
}

func tell(t *testing.T, change ...func(*karpv1.NodePool)) *story {
	p := planetest.Start(t)
	api, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{
		T: t, api: api, region: &region{api: api, ctx: t.Context(), machines: map[string]cloud.Instance{}},
		ns: planetest.Namespace(t, p),
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	t.Cleanup(s.clean)
	s.pool(change...)
	return s
}

func (s *story) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, controller.Options{
			REST: planetest.Start(s.T).RESTConfig(), Gates: gates.Gates{CapacityBuffer: true},
			Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
				return s.region, nil
			},
		})
	}()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("the controller ended with %v", err)
		}
	}
}

// pool creates a NodePool that may launch nodes in the region.
func (s *story) pool(change ...func(*karpv1.NodePool)) {
	s.Helper()
	class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	class.Spec.Role = "node"
	class.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{ID: "subnet-0123456789abcdef0"}}
	class.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{ID: "sg-0123456789abcdef0"}}
	s.create(class)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "default",
	}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	for _, c := range change {
		c(pool)
	}
	s.create(pool)
}

func (s *story) create(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		if err := s.api.Create(context.Background(), o); err != nil {
			s.Fatal(err)
		}
	}
}

// clean deletes everything that other stories could see, and waits until it is gone.
func (s *story) clean() {
	ctx := context.Background()
	for _, o := range []client.Object{
		&autoscaling.CapacityBuffer{}, &appsv1.Deployment{}, &corev1.PodTemplate{},
	} {
		if err := s.api.DeleteAllOf(ctx, o, client.InNamespace(s.ns)); err != nil {
			s.Error(err)
		}
	}
	if err := s.api.DeleteAllOf(ctx, &karpv1.NodePool{}); err != nil {
		s.Error(err)
	}
	planetest.Eventually(s.T, "the story's machines are gone", func(ctx context.Context) error {
		left := s.claims()
		if err := s.api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.ns), client.GracePeriodSeconds(0)); err != nil {
			return err
		}
		nodes := &corev1.NodeList{}
		if err := s.api.List(ctx, nodes); err != nil || len(left)+len(nodes.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d claims and %d nodes are left", len(left), len(nodes.Items)))
		}
		return nil
	})
	if err := s.api.DeleteAllOf(ctx, &ec2v1.EC2NodeClass{}); err != nil {
		s.Error(err)
	}
	planetest.Eventually(s.T, "the story's class is gone", func(ctx context.Context) error {
		classes, pools := &ec2v1.EC2NodeClassList{}, &karpv1.NodePoolList{}
		err := errors.Join(s.api.List(ctx, classes), s.api.List(ctx, pools))
		if err != nil || len(classes.Items)+len(pools.Items) > 0 {
			return errors.Join(err, errors.New("still there"))
		}
		return nil
	})
}

func (s *story) claims() []string {
	list := &karpv1.NodeClaimList{}
	if err := s.api.List(context.Background(), list); err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// machines waits until there are exactly n NodeClaims, each with an initialized Node, and returns their names.
func (s *story) machines(n int) []string {
	s.Helper()
	var names []string
	planetest.Eventually(s.T, fmt.Sprintf("%d machines", n), func(ctx context.Context) error {
		nodes := &corev1.NodeList{}
		err := s.api.List(ctx, nodes, client.MatchingLabels{karpv1.NodeInitializedLabelKey: "true"})
		if names = s.claims(); len(names) != n || len(nodes.Items) != n {
			return errors.Join(err, fmt.Errorf("there are %d claims and %d nodes", len(names), len(nodes.Items)))
		}
		return err
	})
	return names
}

func spec(cpu string) corev1.PodSpec {
	never := int64(0)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &never,
		Containers: []corev1.Container{{Name: "pause", Image: "pause", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("512Mi")},
		}}},
	}
}

func (s *story) template(cpu string, change ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplate {
	s.Helper()
	t := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "room", Namespace: s.ns},
		Template:   corev1.PodTemplateSpec{Spec: spec(cpu)},
	}
	for _, c := range change {
		c(&t.Template)
	}
	s.create(t)
	return t
}

func (s *story) deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	s.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.ns}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec(cpu)},
	}
	s.create(d)
	return d
}

func number(n int32) *int32 { return &n }

// ofTemplate is a buffer for the given number of pods of the template.
func ofTemplate(replicas int32) autoscaling.CapacityBufferSpec {
	return autoscaling.CapacityBufferSpec{PodTemplateRef: &autoscaling.LocalObjectRef{Name: "room"}, Replicas: &replicas}
}

func (s *story) buffer(name string, spec autoscaling.CapacityBufferSpec) *autoscaling.CapacityBuffer {
	s.Helper()
	b := &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.ns}, Spec: spec}
	s.create(b)
	return b
}

// says waits until the buffer's condition has the reason and its message contains the words, and returns the buffer's
// status.
func (s *story) says(b *autoscaling.CapacityBuffer, condition, reason string,
	words ...string,
) autoscaling.CapacityBufferStatus {
	s.Helper()
	now := &autoscaling.CapacityBuffer{}
	planetest.Eventually(s.T, condition+" of "+b.Name+" says "+reason, func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(b), now); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(now.Status.Conditions, condition)
		if c == nil || c.Reason != reason ||
			slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Message, w) }) {
			return fmt.Errorf("it says %+v", now.Status)
		}
		return nil
	})
	return now.Status
}

func (s *story) provisioned(b *autoscaling.CapacityBuffer, replicas int32) {
	s.Helper()
	s.says(b, autoscaling.ProvisioningCondition, "FitsExistingCapacity", fmt.Sprintf("All %d virtual pods", replicas))
}

func (s *story) replicas(b *autoscaling.CapacityBuffer, n int32) {
	s.Helper()
	planetest.Eventually(s.T, fmt.Sprintf("%s asks room for %d", b.Name, n), func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if b.Status.Replicas == nil || *b.Status.Replicas != n {
			return fmt.Errorf("status %+v", b.Status)
		}
		return nil
	})
}

// update changes an object and retries on conflicts.
func update[T client.Object](s *story, o T, change func(T)) {
	s.Helper()
	planetest.Eventually(s.T, "an update", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return s.api.Update(ctx, o)
	})
}
