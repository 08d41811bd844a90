package controller_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// A cluster in EKS Auto Mode, with Auto Mode's RBAC rules: built-in objects are restored, and its nodes run beside
// those of an EC2NodeClass.
func TestAutoMode(t *testing.T) {
	s := stacktest.Start(t)
	ctx := context.Background()
	if err := crds.Apply(ctx, s.Plane.RESTConfig(), crds.AutoMode()); err != nil {
		t.Fatal(err)
	}
	if err := eksv1.AddToScheme(s.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		class := objectOf(t, s, "default", &eksv1.NodeClass{})
		class.Finalizers = nil
		_ = s.Client.Update(ctx, class)
		_ = s.Client.Delete(ctx, class)
		if err := crds.Install(ctx, s.Plane.RESTConfig()); err != nil {
			t.Error(err)
		}
	})
	own := objectOf(t, s, "general-purpose", &karpv1.NodePool{}) // of the stack's EC2NodeClass: the name is reserved
	if err := s.Client.Delete(ctx, own); err != nil {
		t.Fatal(err)
	}
	namespace := planetest.Namespace(t, s.Plane)
	for _, o := range rbac.Objects(namespace, controller.DefaultLease, rbac.AutoModeRules()...) {
		create(t, s.Client, o)
		t.Cleanup(func() { _ = s.Client.Delete(ctx, o) })
	}
	for _, o := range rbac.Objects(namespace, controller.DefaultLease, rbac.AutoModeRules()...) {
		granted(t, s, namespace, o)
	}
	r := s.Controller(t, func(o *controller.Options) {
		o.AutoMode = &automode.Settings{
			Pools: automode.Pools(), Class: automode.DiscoveredClass("nodeless-node", "nodeless"),
		}
		o.REST = rest.CopyConfig(o.REST)
		o.REST.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + rbac.Name,
			Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		}
	})
	<-r.Leads

	web := deployment(namespace, "web", 2)
	web.Spec.Template.Spec.NodeSelector = map[string]string{
		"eks.amazonaws.com/compute-type": "auto", "eks.amazonaws.com/instance-cpu": "4",
	}
	create(t, s.Client, web)
	running(t, s.Client, web)
	node := nodeOf(t, s, "general-purpose")
	if node.Name != node.Status.NodeInfo.MachineID || node.Labels["eks.amazonaws.com/instance-cpu"] != "4" ||
		node.Labels["eks.amazonaws.com/nodeclass"] != "default" || node.Status.Allocatable.Pods().Value() != 110 {
		t.Errorf("node %s of instance %s, %s pods, labels %v", node.Name, node.Status.NodeInfo.MachineID,
			node.Status.Allocatable.Pods(), node.Labels)
	}
	if node.Labels["karpenter.k8s.aws/instance-cpu"] != "" {
		t.Error("the node has Karpenter's labels")
	}

	small := deployment(namespace, "small", 100) // more pods than the interfaces have individual addresses
	small.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node.Name}
	small.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	create(t, s.Client, small)
	running(t, s.Client, small)

	pool := objectOf(t, s, "general-purpose", &karpv1.NodePool{})
	before, generation := pool.DeepCopy(), pool.Generation
	pool.Spec.Limits = karpv1.Limits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")})
	if err := s.Client.Patch(ctx, pool, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the edit is reverted", func(context.Context) error {
		pool := objectOf(t, s, "general-purpose", &karpv1.NodePool{})
		if pool.Spec.Limits != nil || pool.Generation != generation+2 {
			return fmt.Errorf("limits %v in generation %d, of %d before", pool.Spec.Limits, pool.Generation, generation)
		}
		return nil
	})
	said(t, s, "default", "general-purpose", "Reverted", "create a NodePool of your own")

	class := objectOf(t, s, "default", &eksv1.NodeClass{})
	if class.Annotations["eks.amazonaws.com/nodeclass-hash"] == "" || len(class.Status.Subnets) == 0 ||
		class.Finalizers[0] != eksv1.TerminationFinalizer {
		t.Errorf("NodeClass default: annotations %v, finalizers %v, subnets %v", class.Annotations, class.Finalizers,
			class.Status.Subnets)
	}
	taints := objectOf(t, s, "system", &karpv1.NodePool{}).Spec.Template.Spec.Taints

	beside := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "beside"}, Spec: own.Spec}
	create(t, s.Client, beside)
	old := deployment(namespace, "old", 1)
	old.Spec.Template.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-cpu": "2"}
	create(t, s.Client, old)
	running(t, s.Client, old)
	if node := nodeOf(t, s, "beside"); node.Labels["karpenter.k8s.aws/ec2nodeclass"] != "default" ||
		node.Name == node.Status.NodeInfo.MachineID {
		t.Errorf("the node of the EC2NodeClass is %s, labels %v", node.Name, node.Labels)
	}
	if len(taints) != 1 || taints[0].Key != "CriticalAddonsOnly" {
		t.Errorf("taints of system: %v", taints)
	}
}

// objectOf reads the object of the given name.
func objectOf[T client.Object](t *testing.T, s *stacktest.Stack, name string, into T) T {
	t.Helper()
	if err := s.Client.Get(context.Background(), client.ObjectKey{Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// nodeOf returns an initialized node of a pool.
func nodeOf(t *testing.T, s *stacktest.Stack, pool string) *corev1.Node {
	t.Helper()
	var found corev1.NodeList
	planetest.Eventually(t, "a node of "+pool, func(ctx context.Context) error {
		err := s.Client.List(ctx, &found, client.MatchingLabels{
			karpv1.NodePoolLabelKey: pool, karpv1.NodeInitializedLabelKey: "true",
		})
		if err == nil && len(found.Items) == 0 {
			return fmt.Errorf("there is none")
		}
		return err
	})
	return &found.Items[0]
}
