package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// labelStack marks the TargetGroupBindings that this controller made for its own target groups. All others are a
// user's: they put the pods of a Service into a target group that is not the controller's.
const labelStack = "elbv2.k8s.aws/stack"

// finalizerBinding keeps a user's TargetGroupBinding until its pods are deregistered. It has the AWS Load Balancer
// Controller's name.
const finalizerBinding = "elbv2.k8s.aws/resources"

// bind creates the TargetGroupBindings of the stacks' target groups, and deletes those of groups that are gone.
func (c *controller) bind(
	ctx context.Context, have *made, stacks []*stack, existing []*unstructured.Unstructured,
) error {
	ours := map[string]*unstructured.Unstructured{}
	for _, b := range existing {
		if b.GetLabels()[labelStack] != "" {
			ours[b.GetNamespace()+"/"+b.GetName()] = b
		}
	}
	var failed []error
	for _, s := range stacks {
		for _, name := range slices.Sorted(maps.Keys(s.targetGroups)) {
			g, at := s.targetGroups[name], have.groups[name]
			if at.TargetGroupArn == nil {
				continue // just created: the next reconciliation sees it
			}
			key := g.service.Namespace + "/" + name
			spec := map[string]any{
				"targetGroupARN": *at.TargetGroupArn, "targetType": g.targetType,
				"serviceRef": map[string]any{"name": g.service.Name, "port": int64(g.servicePort)},
			}
			old := ours[key]
			delete(ours, key)
			failed = append(failed, c.putBinding(ctx, g.service.Namespace, name, spec, old))
		}
	}
	for _, b := range ours {
		err := c.dynamic.Resource(bindings).Namespace(b.GetNamespace()).Delete(ctx, b.GetName(), metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (c *controller) putBinding(
	ctx context.Context, namespace, name string, spec map[string]any, old *unstructured.Unstructured,
) error {
	client := c.dynamic.Resource(bindings).Namespace(namespace)
	if old != nil && specOf(old, "targetGroupARN") != spec["targetGroupARN"] { // it cannot be changed
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("TargetGroupBinding %s/%s: %w", namespace, name, err)
		}
		old = nil
	}
	var err error
	switch {
	case old == nil:
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(bindings.GroupVersion().String())
		o.SetKind("TargetGroupBinding")
		o.SetName(name)
		o.SetLabels(map[string]string{labelStack: name})
		_, err = client.Create(ctx, o, metav1.CreateOptions{})
	case !reflect.DeepEqual(old.Object["spec"], any(spec)):
		o := old.DeepCopy()
		o.Object["spec"] = spec
		_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) { // or its namespace is being deleted
		return nil
	}
	return fmt.Errorf("TargetGroupBinding %s/%s: %w", namespace, name, err)
}

// bound registers the pods of Services in the target groups that users' TargetGroupBindings name, and deregisters
// those of TargetGroupBindings that are being deleted.
func (c *controller) bound(ctx context.Context, o *objects, existing []*unstructured.Unstructured) error {
	var failed []error
	for _, b := range existing {
		if b.GetLabels()[labelStack] != "" {
			continue
		}
		var err error
		if b.GetDeletionTimestamp() == nil {
			err = c.boundOne(ctx, o, b)
		} else {
			err = c.unbind(ctx, b)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("TargetGroupBinding %s/%s: %w", b.GetNamespace(), b.GetName(), err))
			c.recorder.Event(b, corev1.EventTypeWarning, "BackendNotFound", err.Error())
		}
	}
	return errors.Join(failed...)
}

func (c *controller) boundOne(ctx context.Context, o *objects, b *unstructured.Unstructured) error {
	text := func(path ...string) string { return specOf(b, path...) }
	svc := o.services[b.GetNamespace()+"/"+text("serviceRef", "name")]
	if svc == nil {
		return fmt.Errorf("Service %q does not exist", text("serviceRef", "name")) //nolint:staticcheck // a kind's name
	}
	at := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == text("serviceRef", "port") || fmt.Sprint(p.Port) == text("serviceRef", "port")
	})
	if at < 0 {
		return fmt.Errorf("Service %q has no port %s", svc.Name, text("serviceRef", "port")) //nolint:staticcheck // likewise
	}
	found, err := c.groupOf(ctx, b)
	if err != nil {
		return err
	}
	g := &targetGroup{name: b.GetName(), targetType: string(found.TargetType)}
	if named := text("targetType"); named != "" && named != g.targetType {
		return fmt.Errorf("the target group has the target type %s, not %s", g.targetType, named)
	}
	if err := o.fill(g, svc, svc.Spec.Ports[at]); err != nil {
		return err
	}
	complete := b.DeepCopy()
	if err := unstructured.SetNestedField(complete.Object, g.targetType, "spec", "targetType"); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(complete, finalizerBinding) || text("targetType") == "" {
		if err := c.update(ctx, complete); err != nil {
			return err
		}
	}
	return cmp.Or(c.aws.syncTargets(ctx, *found.TargetGroupArn, g.targets), c.openGates(ctx, *found.TargetGroupArn, g))
}

// groupOf returns the target group that a TargetGroupBinding names.
func (c *controller) groupOf(ctx context.Context, b *unstructured.Unstructured) (types.TargetGroup, error) {
	in := &elb.DescribeTargetGroupsInput{TargetGroupArns: []string{specOf(b, "targetGroupARN")}}
	if in.TargetGroupArns[0] == "" {
		in.TargetGroupArns, in.Names = nil, []string{specOf(b, "targetGroupName")}
	}
	found, err := c.aws.elb.DescribeTargetGroups(ctx, in)
	if err != nil {
		return types.TargetGroup{}, err
	}
	return found.TargetGroups[0], nil
}

// unbind deregisters all targets of a TargetGroupBinding's target group, unless the group is gone, and removes the
// finalizer.
func (c *controller) unbind(ctx context.Context, b *unstructured.Unstructured) error {
	b = b.DeepCopy()
	if !controllerutil.RemoveFinalizer(b, finalizerBinding) {
		return nil // another finalizer keeps it
	}
	found, err := c.groupOf(ctx, b)
	if err == nil {
		err = c.aws.syncTargets(ctx, *found.TargetGroupArn, nil)
	}
	if gone := (*types.TargetGroupNotFoundException)(nil); err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("deregister its targets: %w", err)
	}
	return c.update(ctx, b)
}

func (c *controller) update(ctx context.Context, b *unstructured.Unstructured) error {
	_, err := c.dynamic.Resource(bindings).Namespace(b.GetNamespace()).Update(ctx, b, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it changed, and is reconciled again
		return nil
	}
	return err
}
