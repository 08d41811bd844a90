package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

var labClass = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "LabClass"}

// labKind is a kind of node class whose objects have no spec of their own: they stand for the resources that every
// region has.
func labKind() status.Kind {
	tags := map[string]string{"karpenter.sh/discovery": "nodeless"}
	return status.Kind{GroupVersionKind: labClass, Spec: func(*unstructured.Unstructured) ec2v1.EC2NodeClassSpec {
		return ec2v1.EC2NodeClassSpec{
			Role: "nodeless-node", AMISelectorTerms: []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []ec2v1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}},
		}
	}}
}

func labCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "labclasses.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: labClass.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "labclasses", Singular: "labclass",
				Kind: labClass.Kind, ListKind: "LabClassList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: labClass.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// A pod, a pool and a class of a kind that is not AWS's: the pod runs on a node that the pool's requirement on a
// label of the laboratory allows.
func TestAClassOfAnotherKindGivesMachines(t *testing.T) {
	ctx := context.Background()
	stack := stacktest.StartWith(t, &catalog.Own{Zones: []string{"lab-a"}, Types: []catalog.OwnType{
		{Name: "cheap", VCPU: 4, MemoryMiB: 8192, OnDemand: 0.1, Labels: map[string]string{"example.com/rack": "1"}},
		{Name: "dear", VCPU: 4, MemoryMiB: 8192, OnDemand: 0.2, Labels: map[string]string{"example.com/rack": "2"}},
	}})
	api := stack.Client
	if err := crds.Apply(ctx, stack.Plane.RESTConfig(),
		[]*apiextensionsv1.CustomResourceDefinition{labCRD()}); err != nil {
		t.Fatal(err)
	}
	stack.Controller(t, func(o *controller.Options) { o.ClassKinds = []status.Kind{labKind()} })
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(labClass)
	class.SetName("lab")
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: labClass.Group, Kind: labClass.Kind,
		Name: "lab",
	}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: "example.com/rack", Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "guest", Namespace: planetest.Namespace(t, stack.Plane)}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}
	for _, o := range []client.Object{class, pool, pod} {
		if err := api.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	planetest.Eventually(t, "the pod runs on a machine of rack 2", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s, %w", pod.Status.Phase, errors.Join(err))
		}
		node := &corev1.Node{}
		if err := api.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
			return err
		}
		if node.Labels["example.com/rack"] != "2" || node.Labels["example.com/labclass"] != "lab" ||
			node.Labels["karpenter.sh/initialized"] != "true" {
			return fmt.Errorf("labels %v", node.Labels)
		}
		return nil
	})
	if err := api.Get(ctx, client.ObjectKeyFromObject(class), class); err != nil {
		t.Fatal(err)
	}
	if c := ready(class); c["status"] != "True" || c["observedGeneration"] != class.GetGeneration() {
		t.Errorf("the class says %v", c)
	}
	// When the class and its last node are gone, the region has no trace of it either.
	for _, o := range []client.Object{class, pod, pool} {
		if err := api.Delete(ctx, o, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	planetest.Eventually(t, "the class is gone", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(class), class)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", errors.Join(err))
		}
		if templates := stack.Region.LaunchTemplates(); len(templates) > 0 {
			return fmt.Errorf("%d launch templates are left", len(templates))
		}
		return nil
	})
}

// ready returns the condition Ready.
func ready(class *unstructured.Unstructured) map[string]any {
	list, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return c
		}
	}
	return nil
}
