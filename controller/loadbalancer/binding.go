package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// labelStack marks the TargetGroupBindings that this controller made for its own target groups. All others are
// somebody's: they put the pods of a Service into a target group that is not the controller's.
const labelStack = "elbv2.k8s.aws/stack"

// bind makes the TargetGroupBindings of the stacks' target groups, and deletes those of groups that are gone.
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
				continue // made in this very look: the next one sees it
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
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) { // or its namespace ends
		return nil
	}
	return fmt.Errorf("TargetGroupBinding %s/%s: %w", namespace, name, err)
}

// bound registers the pods of Services in the target groups that somebody's TargetGroupBindings name.
func (c *controller) bound(ctx context.Context, o *objects, existing []*unstructured.Unstructured) error {
	var failed []error
	for _, b := range existing {
		if b.GetLabels()[labelStack] != "" || b.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.boundOne(ctx, o, b); err != nil {
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
	in := &elb.DescribeTargetGroupsInput{}
	if in.TargetGroupArns = []string{text("targetGroupARN")}; in.TargetGroupArns[0] == "" {
		in.TargetGroupArns, in.Names = nil, []string{text("targetGroupName")}
	}
	found, err := c.aws.elb.DescribeTargetGroups(ctx, in)
	if err != nil {
		return err
	}
	g := &targetGroup{name: b.GetName(), targetType: string(found.TargetGroups[0].TargetType)}
	switch text("targetType") {
	case g.targetType:
	case "":
		if err := c.setTargetType(ctx, b, g.targetType); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the target group has the target type %s, not %s", g.targetType, text("targetType"))
	}
	if err := o.fill(g, svc, svc.Spec.Ports[at]); err != nil {
		return err
	}
	arn := aws.ToString(found.TargetGroups[0].TargetGroupArn)
	return cmp.Or(c.aws.syncTargets(ctx, arn, g.targets), c.openGates(ctx, arn, g))
}

// setTargetType writes the target type of a target group into a TargetGroupBinding that leaves it out.
func (c *controller) setTargetType(ctx context.Context, b *unstructured.Unstructured, kind string) error {
	b = b.DeepCopy()
	if err := unstructured.SetNestedField(b.Object, kind, "spec", "targetType"); err != nil {
		return err
	}
	_, err := c.dynamic.Resource(bindings).Namespace(b.GetNamespace()).Update(ctx, b, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it changed, and is looked at again
		return nil
	}
	return err
}
