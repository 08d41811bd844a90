package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

func init() {
	s := scheme.Scheme
	s.AddKnownTypes(schema.GroupVersion{Group: autoscaling.Group, Version: "v1beta1"}, &autoscaling.CapacityBuffer{},
		&autoscaling.CapacityBufferList{})
	s.AddKnownTypes(schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"}, &v1alpha1.NodeOverlay{},
		&v1alpha1.NodeOverlayList{})
}

// keepRoom creates a NodeOverlay and one buffer of each source and waits for their conditions; remove deletes them.
func keepRoom(t *testing.T, s *stacktest.Stack, namespace, deployment string) (remove func()) {
	t.Helper()
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	one, half, price := int32(1), int32(50), "0.5"
	byTemplate := &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-template"}}
	byTemplate.Spec.PodTemplateRef, byTemplate.Spec.Replicas = &autoscaling.LocalObjectRef{Name: template.Name}, &one
	byScale := &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-scale"}}
	byScale.Spec.ScalableRef = &autoscaling.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: deployment}
	byScale.Spec.Percentage = &half
	overlay := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "dear"}}
	overlay.Spec.Price = &price
	overlay.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{{
		Key:      corev1.LabelInstanceTypeStable,
		Operator: "In", Values: []string{"m5.24xlarge"},
	}}
	objects := []client.Object{template, byTemplate, byScale, overlay}
	for _, o := range objects {
		create(t, s.Client, o)
		t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
	}
	planetest.Eventually(t, "buffers and overlay are judged", func(ctx context.Context) error {
		for _, b := range []*autoscaling.CapacityBuffer{byTemplate, byScale} {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
				return err
			}
			if apimeta.FindStatusCondition(b.Status.Conditions, autoscaling.ProvisioningCondition) == nil {
				return fmt.Errorf("%s: %v", b.Name, b.Status.Conditions)
			}
		}
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(overlay), overlay); err != nil {
			return err
		}
		if len(overlay.Status.Conditions) == 0 {
			return errors.New("the overlay has no condition")
		}
		return nil
	})
	return func() {
		for _, o := range objects {
			if err := s.Client.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		}
	}
}

// replaceAll makes every node drift and waits until commands have replaced them all.
func replaceAll(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	planetest.Eventually(t, "the pool asks for other machines", func(ctx context.Context) error {
		pool := &karpv1.NodePool{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: "general-purpose"}, pool); err != nil {
			return err
		}
		pool.Spec.Template.Labels = map[string]string{"generation": "second"}
		return s.Client.Update(ctx, pool)
	})
	planetest.Eventually(t, "all machines are of the second generation", func(ctx context.Context) error {
		var claims karpv1.NodeClaimList
		if err := s.Client.List(ctx, &claims); err != nil {
			return err
		}
		for i := range claims.Items {
			if claims.Items[i].Labels["generation"] != "second" {
				return fmt.Errorf("%s is of the first", claims.Items[i].Name)
			}
		}
		return nil
	})
}
