package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// region is a cloud in memory with one type, where classes resolve unless bad is set.
type region struct {
	mu        sync.Mutex
	machines  map[string]cloud.Instance
	bad       string   // why no class can be resolved
	finalized []string // finalized classes
}

func size() model.Resources {
	return model.Resources{model.CPU: 2000, model.Memory: 8 << 20, model.Pods: 29}
}

func (r *region) Name() string { return "memory" }

func (r *region) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	return []model.InstanceType{{
		Name: "m5.large", Capacity: size(), Allocatable: size(),
		Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "m5.large")),
		Offerings:    []model.Offering{{Zone: "a", CapacityType: model.Spot, Price: 1, Available: true}},
	}}, nil
}

func (r *region) Launch(_ context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := cloud.Instance{
		ID: "i-" + req.Claim, ProviderID: "aws:///a/i-" + req.Claim, Claim: req.Claim, Type: "m5.large", Zone: "a",
		CapacityType: model.Spot,
		State:        cloud.Running, Launched: time.Now(), Capacity: size(), Allocatable: size(),
		Labels: map[string]string{model.LabelInstanceType: "m5.large"},
	}
	r.machines[m.ID] = m
	return cloud.LaunchResult{Instance: m}, nil
}

func (r *region) Terminate(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.machines[id]; !ok {
		return cloud.ErrNotFound
	}
	delete(r.machines, id)
	return nil
}

func (r *region) Get(_ context.Context, id string) (cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.machines[id]; ok {
		return m, nil
	}
	return cloud.Instance{}, cloud.ErrNotFound
}

func (r *region) List(context.Context) ([]cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []cloud.Instance
	for _, m := range r.machines {
		out = append(out, m)
	}
	return out, nil
}

func (r *region) Resolve(_ context.Context, class *ec2v1.EC2NodeClass) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	conditions := class.StatusConditions()
	for _, c := range conditions.List() {
		if c.Type != opstatus.ConditionReady {
			conditions.SetTrue(c.Type)
		}
	}
	if r.bad != "" {
		conditions.SetFalse(ec2v1.ConditionTypeSubnetsReady, "SubnetsNotFound", r.bad)
	}
	return nil
}

func (r *region) Finalize(_ context.Context, class *ec2v1.EC2NodeClass) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finalized = append(r.finalized, class.Name)
	return nil
}

func (r *region) wasFinalized(class string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.finalized, class)
}

// story is one test's controller on the shared API server.
type story struct {
	*testing.T
	api    client.Client
	region *region
}

func tell(t *testing.T) *story {
	p := planetest.Start(t)
	api, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, api: api, region: &region{machines: map[string]cloud.Instance{}}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, controller.Options{
			REST: p.RESTConfig(),
			Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
				return s.region, nil
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controller ended with %v", err)
		}
	})
	return s
}

// create creates an object that is deleted at the end of the test, finalizers included.
func (s *story) create(o client.Object) {
	s.Helper()
	if err := s.api.Create(context.Background(), o); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		planetest.Eventually(s, "the test's objects are gone", func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return client.IgnoreNotFound(err)
			}
			o.SetFinalizers(nil)
			return errors.Join(client.IgnoreNotFound(s.api.Update(ctx, o)), client.IgnoreNotFound(s.api.Delete(ctx, o)),
				errors.New("still there"))
		})
	})
}

func class(name string) *ec2v1.EC2NodeClass {
	c := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Role = "nodes"
	c.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	c.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "demo"}}}
	c.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "demo"}}}
	c.Spec.CapacityReservationSelectorTerms = nil
	return c
}

// pool returns a NodePool whose nodes are never disrupted voluntarily.
func pool(name, class string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: class,
	}
	p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	return p
}

func claim(name, pool, class string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
		},
	}
}

// conditioned is an object with conditions.
type conditioned interface {
	client.Object
	opstatus.Object
}

// says waits until a condition has the status and reason, and its message the words.
func (s *story) says(o conditioned, kind string, want metav1.ConditionStatus, reason string, words ...string) {
	s.Helper()
	planetest.Eventually(s, fmt.Sprintf("%s of %s is %s", kind, o.GetName(), want), func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		c := o.StatusConditions(opstatus.WithObservedOnly()).Get(kind)
		if c == nil || c.Status != want || (reason != "" && c.Reason != reason) {
			return fmt.Errorf("conditions are %v", o.GetConditions())
		}
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				return fmt.Errorf("the message %q lacks %q", c.Message, w)
			}
		}
		return nil
	})
}

// The feature gate StaticCapacity is off by default: whoever waits for a static pool learns that it launches nothing.
func TestAStaticPoolIsNotReadyWithoutItsGate(t *testing.T) {
	s := tell(t)
	s.create(class("fine"))
	np, replicas := pool("static", "fine"), int64(1)
	np.Spec.Replicas = &replicas
	s.create(np)
	s.says(np, karpv1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, "StaticCapacityDisabled",
		"--feature-gates StaticCapacity=true")
	s.says(np, opstatus.ConditionReady, metav1.ConditionFalse, "")
}

func TestAPoolSaysThatItIsReadyAndWhatItHas(t *testing.T) {
	s := tell(t)
	s.create(class("fine"))
	np := pool("sums", "fine")
	s.create(np)
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	if np.Annotations[karpv1.NodePoolHashAnnotationKey] != np.Hash() ||
		np.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
		t.Errorf("annotations are %v", np.Annotations)
	}
	has := func(nodes int64, cpu string) {
		t.Helper()
		planetest.Eventually(t, fmt.Sprintf("the pool says that it has %d nodes", nodes), func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
				return err
			}
			got, sum := np.Status.Resources, resource.MustParse(cpu)
			if np.Status.Nodes == nil || *np.Status.Nodes != nodes || got.Cpu().Cmp(sum) != 0 ||
				got.Name("nodes", resource.DecimalSI).Value() != nodes {
				return fmt.Errorf("nodes %v, resources %v", np.Status.Nodes, got)
			}
			return nil
		})
	}
	has(0, "0")
	s.create(claim("sums-1", np.Name, "fine"))
	s.create(claim("sums-2", np.Name, "fine"))
	has(2, "4")
	if err := s.api.Delete(context.Background(),
		&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "sums-1"}}); err != nil {
		t.Fatal(err)
	}
	has(1, "2")
}

func TestAPoolNamesTheClassThatItLacks(t *testing.T) {
	s := tell(t)
	np := pool("lonely", "later")
	s.create(np)
	s.says(np, karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassNotFound", `"later"`,
		"spec.template.spec.nodeClassRef.name")
	s.says(np, opstatus.ConditionReady, metav1.ConditionFalse, "")
	s.region.mu.Lock()
	s.region.bad = "no subnet matches spec.subnetSelectorTerms"
	s.region.mu.Unlock()
	c := class("later")
	s.create(c)
	s.says(np, karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassNotReady", `"later"`,
		"spec.subnetSelectorTerms")
	s.region.mu.Lock()
	s.region.bad = ""
	s.region.mu.Unlock()
	c.Spec.Tags = map[string]string{"changed": "so that it is looked at"}
	planetest.Eventually(t, "the class is changed", func(ctx context.Context) error {
		before := &ec2v1.EC2NodeClass{}
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), before); err != nil {
			return err
		}
		after := before.DeepCopy()
		after.Spec.Tags = c.Spec.Tags
		return s.api.Patch(ctx, after, client.MergeFrom(before))
	})
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
}

func TestAPoolThatMakesNoSenseNamesTheField(t *testing.T) {
	s := tell(t)
	s.create(class("plain"))
	for field, spoil := range map[string]func(*karpv1.NodePool){
		"spec.limits.cpu": func(np *karpv1.NodePool) { np.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("-1")} },
		"spec.template: duplicate taint": func(np *karpv1.NodePool) {
			twice := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
			np.Spec.Template.Spec.Taints = []corev1.Taint{twice, twice}
		},
	} {
		np := pool(fmt.Sprintf("senseless-%d", len(field)), "plain")
		spoil(np)
		s.create(np)
		s.says(np, karpv1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, "NodePoolValidationFailed", field)
		s.says(np, opstatus.ConditionReady, metav1.ConditionFalse, "")
	}
}

func TestAClassIsStampedAndGoesAfterItsClaims(t *testing.T) {
	s := tell(t)
	ctx := context.Background()
	c := class("going")
	s.create(c)
	s.says(c, opstatus.ConditionReady, metav1.ConditionTrue, "")
	if !slices.Contains(c.Finalizers, ec2v1.TerminationFinalizer) ||
		c.Annotations[ec2v1.AnnotationEC2NodeClassHash] == "" ||
		c.Annotations[ec2v1.AnnotationEC2NodeClassHashVersion] != ec2v1.EC2NodeClassHashVersion {
		t.Errorf("class is not stamped: %v", c.ObjectMeta)
	}
	np := pool("going-pool", "going")
	s.create(np)
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	user := claim("going-user", np.Name, "going")
	s.create(user)
	s.says(user, karpv1.ConditionTypeLaunched, metav1.ConditionTrue, "")
	if user.Annotations[ec2v1.AnnotationEC2NodeClassHash] != c.Annotations[ec2v1.AnnotationEC2NodeClassHash] {
		t.Errorf("the claim does not say of which state of its class it is: %v", user.Annotations)
	}
	if err := s.api.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
	s.says(np, karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, "NodeClassTerminating", `"going"`)
	planetest.Eventually(t, "the class says whom it waits for", func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.api.List(ctx, &events, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "WaitingOnNodeClaimTermination" && e.InvolvedObject.Name == "going" &&
				strings.Contains(e.Message, user.Name) {
				return nil
			}
		}
		return errors.New("no event yet")
	})
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil || s.region.wasFinalized("going") {
		t.Fatalf("the class did not wait for its claim: %v", err)
	}
	if err := s.api.Delete(ctx, user); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the class is gone", func(ctx context.Context) error {
		err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
	if !s.region.wasFinalized("going") {
		t.Error("what was made in the cloud for the class was not removed")
	}
}

// A pool reports annotations that cannot be parsed; they stop no launches.
func TestAPoolSaysWhichAnnotationCannotBeRead(t *testing.T) {
	s := tell(t)
	s.create(class("wished"))
	np := pool("wishes", "wished")
	np.Annotations = map[string]string{"nodeless.sh/disruption-time-zone": "Middle/Earth"}
	s.create(np)
	s.says(np, "NodelessAnnotationsValid", metav1.ConditionFalse, "AnnotationInvalid",
		"nodeless.sh/disruption-time-zone", `"Middle/Earth"`, "Europe/Berlin")
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	planetest.Eventually(t, "an event says so too", func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.api.List(ctx, &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == np.Name && e.Reason == "AnnotationInvalid" &&
				strings.Contains(e.Message, `"Middle/Earth"`) {
				return nil
			}
		}
		return errors.New("none does")
	})
	annotate := func(value string) {
		t.Helper()
		planetest.Eventually(t, "the pool is annotated", func(ctx context.Context) error {
			before := &karpv1.NodePool{}
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), before); err != nil {
				return err
			}
			after := before.DeepCopy()
			if after.Annotations["nodeless.sh/disruption-time-zone"] = value; value == "" {
				delete(after.Annotations, "nodeless.sh/disruption-time-zone")
			}
			return s.api.Patch(ctx, after, client.MergeFrom(before))
		})
	}
	annotate("Europe/Berlin")
	s.says(np, "NodelessAnnotationsValid", metav1.ConditionTrue, "")
	annotate("")
	planetest.Eventually(t, "the condition goes with the annotation", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
			return err
		}
		if np.StatusConditions(opstatus.WithObservedOnly()).Get("NodelessAnnotationsValid") != nil {
			return errors.New("it is still there")
		}
		return nil
	})
}

// A requirement that restricts no instance costs money: the pool reports it, and is used all the same.
func TestAPoolSaysWhichRequirementRestrictsNothing(t *testing.T) {
	s := tell(t)
	s.create(class("trapped"))
	np := pool("trap", "trapped")
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements,
		karpv1.NodeSelectorRequirementWithMinValues{
			Key: "eks.amazonaws.com/instance-category", Operator: corev1.NodeSelectorOpIn, Values: []string{"c"},
		})
	s.create(np)
	s.says(np, "NodelessRequirementsKnown", metav1.ConditionFalse, "UnknownRequirementKeys",
		"eks.amazonaws.com/instance-category is not a key of EC2NodeClass instances",
		"write karpenter.k8s.aws/instance-category")
	s.says(np, opstatus.ConditionReady, metav1.ConditionTrue, "")
	planetest.Eventually(t, "the pool is corrected", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
			return err
		}
		before := np.DeepCopy()
		last := &np.Spec.Template.Spec.Requirements[len(np.Spec.Template.Spec.Requirements)-1]
		last.Key = "karpenter.k8s.aws/instance-category"
		return s.api.Patch(ctx, np, client.MergeFrom(before))
	})
	planetest.Eventually(t, "the condition goes", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(np), np); err != nil {
			return err
		}
		if np.StatusConditions(opstatus.WithObservedOnly()).Get("NodelessRequirementsKnown") != nil {
			return errors.New("it is still there")
		}
		return nil
	})
}
