package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/plane/planetest"
)

// overlayRegion is a cloud that sells two types and records launch requests; its instances never register.
type overlayRegion struct{ asked chan cloud.LaunchRequest }

func (r overlayRegion) Name() string { return "memory" }

func (r overlayRegion) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	var out []model.InstanceType
	for i, name := range []string{"c5.large", "m5.large"} {
		size := model.Resources{model.CPU: 2000, model.Memory: 4 << 30, model.Pods: 29}
		out = append(out, model.InstanceType{
			Name: name, Capacity: size, Allocatable: size,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name), model.OneOf(model.LabelOS, "linux")),
			Offerings: []model.Offering{{
				Zone: "a", CapacityType: model.OnDemand, Price: model.Price(85_000 + 10_000*i),
				Available: true,
			}},
		})
	}
	return out, nil
}

func (r overlayRegion) Launch(_ context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	r.asked <- req
	size := model.Resources{model.CPU: 2000, model.Memory: 4 << 30, model.Pods: 29}
	return cloud.LaunchResult{Instance: cloud.Instance{
		ID: "i-" + req.Claim, ProviderID: "aws:///a/i-" + req.Claim, Claim: req.Claim, Type: "m5.large", Zone: "a",
		CapacityType: model.OnDemand,
		State:        cloud.Running, Capacity: size, Allocatable: size,
		Labels: map[string]string{model.LabelInstanceType: "m5.large"},
	}}, nil
}

func (overlayRegion) Terminate(context.Context, string) error { return cloud.ErrNotFound }
func (overlayRegion) Get(context.Context, string) (cloud.Instance, error) {
	return cloud.Instance{}, cloud.ErrNotFound
}
func (overlayRegion) List(context.Context) ([]cloud.Instance, error) { return nil, nil }

func (overlayRegion) Resolve(_ context.Context, class *ec2v1.EC2NodeClass) error {
	conditions := class.StatusConditions()
	for _, c := range conditions.List() {
		if c.Type != opstatus.ConditionReady {
			conditions.SetTrue(c.Type)
		}
	}
	return nil
}

func overlay(name, price, adjust string, gpus string, types ...string) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{{
		Key:      model.LabelInstanceType,
		Operator: corev1.NodeSelectorOpIn, Values: types,
	}}
	if price != "" {
		o.Spec.Price = &price
	}
	if adjust != "" {
		o.Spec.PriceAdjustment = &adjust
	}
	if gpus != "" {
		o.Spec.Capacity = corev1.ResourceList{"example.com/gpu": resource.MustParse(gpus)}
	}
	return o
}

func TestOverlaysDecideWhatIsLaunched(t *testing.T) {
	p := planetest.Start(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	api, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := overlayRegion{asked: make(chan cloud.LaunchRequest, 100)}
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, controller.Options{
			REST: p.RESTConfig(), Gates: gates.Gates{NodeOverlay: true},
			Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
				return r, nil
			},
		})
	}()
	create := func(objects ...client.Object) {
		t.Helper()
		for _, o := range objects {
			if err := api.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, bad := range map[string]*v1alpha1.NodeOverlay{
		"cannot set both": overlay("bad", "1", "+1", "", "c5.large"),
		"priceAdjustment": overlay("bad", "", "ten", "", "c5.large"),
		"spec.price":      overlay("bad", "cheap", "", "", "c5.large"),
	} {
		if err := api.Create(ctx, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	// The overlays make the more expensive type the cheaper one and give it the resource that the pod requests; one
	// conflicts with another.
	create(overlay("contract", "0.01", "", "", "m5.large"), overlay("device", "", "", "2", "c5.large", "m5.large"),
		overlay("another", "0.5", "", "", "m5.large"))
	class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	class.Spec.Role = "node"
	class.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{ID: "subnet-0123456789abcdef0"}}
	class.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{ID: "sg-0123456789abcdef0"}}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "default",
	}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: planetest.Namespace(t, p)}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("1")},
	}}}
	create(class, pool, pod)

	says := func(name string, status metav1.ConditionStatus, reason string, words ...string) {
		t.Helper()
		o := &v1alpha1.NodeOverlay{}
		planetest.Eventually(t, name+" says "+reason, func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
				return err
			}
			c := o.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded)
			ready := o.StatusConditions().Get(opstatus.ConditionReady)
			if c == nil || c.Status != status || c.Reason != reason || ready.Status != status {
				return fmt.Errorf("it says %+v", o.Status)
			}
			for _, w := range words {
				if !strings.Contains(c.Message, w) {
					return fmt.Errorf("%q lacks %q", c.Message, w)
				}
			}
			return nil
		})
	}
	says("contract", metav1.ConditionTrue, "ValidationSucceeded")
	says("device", metav1.ConditionTrue, "ValidationSucceeded")
	says("another", metav1.ConditionFalse, "Conflict", `NodeOverlay "contract"`, "m5.large")

	claim := &karpv1.NodeClaim{}
	planetest.Eventually(t, "a machine is launched", func(ctx context.Context) error {
		list := &karpv1.NodeClaimList{}
		if err := api.List(ctx, list); err != nil || len(list.Items) != 1 ||
			!list.Items[0].StatusConditions().IsTrue(karpv1.ConditionTypeLaunched) {
			return errors.Join(err, fmt.Errorf("%d claims", len(list.Items)))
		}
		claim = &list.Items[0]
		return nil
	})
	for _, key := range []string{v1alpha1.PriceOverlayAppliedAnnotationKey, v1alpha1.CapacityOverlayAppliedAnnotationKey} {
		if claim.Annotations[key] != "true" {
			t.Errorf("annotation %s is missing: %v", key, claim.Annotations)
		}
	}
	if q := claim.Status.Allocatable["example.com/gpu"]; q.Value() != 2 {
		t.Errorf("the claim promises %v", claim.Status.Allocatable)
	}
	if !strings.Contains(claim.Annotations["nodeless.sh/expected"], `"type":"m5.large"`) {
		t.Errorf("expected %s", claim.Annotations["nodeless.sh/expected"])
	}
	req := <-r.asked
	key := model.OfferingKey{Type: "m5.large", Zone: "a", CapacityType: model.OnDemand}
	if req.Prices[key] != 10_000 || req.Requests[model.CPU] != 1000 {
		t.Errorf("asked for %v at %v", req.Requests, req.Prices)
	}
	for i := len(model.WellKnownResources); i < model.MaxResources; i++ {
		if req.Requests[i] != 0 {
			t.Error("the cloud is asked for what it does not know of")
		}
	}

	// Without its rival, the overlay that was left out applies.
	if err := api.Delete(ctx, overlay("contract", "", "", "")); err != nil {
		t.Fatal(err)
	}
	says("another", metav1.ConditionTrue, "ValidationSucceeded")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
