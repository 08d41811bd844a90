package loadbalancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/admission"
)

// Readiness gates of pods, as the AWS Load Balancer Controller documents them ("Pod readiness gate"). A new pod gets a
// gate for each TargetGroupBinding of its namespace that has the target type ip and a Service that selects the pod. The
// gate's condition is the health of the pod's target, in the words of Elastic Load Balancing.
const (
	gatePrefix       = "target-health.elbv2.k8s.aws/"      // and the TargetGroupBinding's name
	legacyGatePrefix = "target-health.alb.ingress.k8s.aws" // of version 1; never set
	gateWebhooks     = "aws-load-balancer-webhook"
)

// gateLabels maps webhook names to the label of the namespaces whose pods get gates from that webhook: those of the
// AWS Load Balancer Controller and of EKS Auto Mode.
var gateLabels = map[string]string{
	"mpod.elbv2.k8s.aws":     "elbv2.k8s.aws/pod-readiness-gate-inject",
	"mpod.eks.amazonaws.com": "eks.amazonaws.com/pod-readiness-gate-inject",
}

func hasGate(p *corev1.Pod, of func(gate string) bool) bool {
	return slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return of(string(g.ConditionType))
	})
}

func isGate(gate string) bool { return strings.HasPrefix(gate, gatePrefix) }

// injector returns the webhook that gives new pods their readiness gates.
func (c *controller) injector() (*admission.Loopback, error) {
	api, err := client.New(c.REST, client.Options{})
	if err != nil {
		return nil, err
	}
	selectors := map[string]*metav1.LabelSelector{}
	for name, label := range gateLabels {
		selectors[name] = &metav1.LabelSelector{MatchLabels: map[string]string{label: "enabled"}}
	}
	return &admission.Loopback{
		Configuration: gateWebhooks, Client: api, Log: c.Log, Mutate: c.inject,
		Selectors: func(context.Context) (map[string]*metav1.LabelSelector, error) { return selectors, nil },
	}, nil
}

// inject adds the gates of a new pod, according to the current bindings and Services.
func (c *controller) inject(ctx context.Context, namespace string, pod *corev1.Pod) error {
	list, err := c.dynamic.Resource(bindings).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("readiness gates of a new pod: list the TargetGroupBindings of namespace %s: %w", namespace, err)
	}
	var names []string
	for i := range list.Items {
		b := &list.Items[i]
		if specOf(b, "targetType") != "ip" {
			continue // the target is a node, whose health is not the pod's
		}
		s, err := c.kube.CoreV1().Services(namespace).Get(ctx, specOf(b, "serviceRef", "name"), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("readiness gates of a new pod: read the Service of TargetGroupBinding %s/%s: %w", namespace,
				b.GetName(), err)
		case len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)):
			names = append(names, b.GetName())
		}
	}
	addGates(pod, names)
	return nil
}

// addGates gives a pod the gates of TargetGroupBindings, which replace those of version 1.
func addGates(pod *corev1.Pod, names []string) {
	if len(names) == 0 {
		return
	}
	pod.Spec.ReadinessGates = slices.DeleteFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return strings.HasPrefix(string(g.ConditionType), legacyGatePrefix)
	})
	for _, name := range names {
		gate := corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(gatePrefix + name)}
		if !slices.Contains(pod.Spec.ReadinessGates, gate) {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, gate)
		}
	}
}

// specOf returns a field of a TargetGroupBinding's spec, "" if it has none.
func specOf(b *unstructured.Unstructured, path ...string) string {
	v, _, _ := unstructured.NestedFieldNoCopy(b.Object, append([]string{"spec"}, path...)...)
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// openGates writes the health of the targets of waiting pods into the conditions of their gates.
func (c *controller) openGates(ctx context.Context, arn string, g *targetGroup) error {
	if len(g.gated) == 0 {
		return nil
	}
	health, err := c.aws.health(ctx, arn)
	if err != nil {
		return fmt.Errorf("readiness gates of target group %s: %w", g.name, err)
	}
	var failed []error
	for t, p := range g.gated {
		h, ok := health[t]
		if !ok {
			h = types.TargetHealth{
				State: types.TargetHealthStateEnumInitial, Reason: types.TargetHealthReasonEnumRegistrationInProgress,
				Description: aws.String("Target registration is in progress"),
			}
		}
		failed = append(failed, c.setGate(ctx, p, gatePrefix+g.name, h))
	}
	return errors.Join(failed...)
}

// openOrphans opens the gates of TargetGroupBindings that no longer exist: nothing else would. It lists the pods
// before the bindings, so that a gate injected in between is not taken for one of them.
func (c *controller) openOrphans(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var gated []*corev1.Pod
	all := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return c.kube.CoreV1().Pods("").List(ctx, o)
	}))
	err := all.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil && hasGate(p, isGate) {
			gated = append(gated, p)
		}
		return nil
	})
	if err != nil || len(gated) == 0 {
		return err
	}
	list, err := c.dynamic.Resource(bindings).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for i := range list.Items {
		exists[list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = true
	}
	deleted := types.TargetHealth{
		State: types.TargetHealthStateEnumHealthy, Description: aws.String("Target Group Binding is deleted"),
	}
	var failed []error
	for _, p := range gated {
		for _, g := range p.Spec.ReadinessGates {
			if name, ok := strings.CutPrefix(string(g.ConditionType), gatePrefix); ok && !exists[p.Namespace+"/"+name] {
				failed = append(failed, c.setGate(ctx, p, string(g.ConditionType), deleted))
			}
		}
	}
	return errors.Join(failed...)
}

// gateCondition returns the condition of a pod's gate for its target's health; changed says whether the pod lacks it.
func gateCondition(p *corev1.Pod, gate string, h types.TargetHealth) (want corev1.PodCondition, changed bool) {
	want = corev1.PodCondition{
		Type: corev1.PodConditionType(gate), Status: corev1.ConditionFalse, Reason: string(h.Reason),
		Message: aws.ToString(h.Description), LastTransitionTime: metav1.Now(),
	}
	if h.State == types.TargetHealthStateEnumHealthy {
		want.Status = corev1.ConditionTrue
	}
	for _, have := range p.Status.Conditions {
		if have.Type == want.Type && have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
			return want, have.Reason != want.Reason || have.Message != want.Message
		}
	}
	return want, true
}

// setGate writes the health of a pod's target into the condition of a gate.
func (c *controller) setGate(ctx context.Context, p *corev1.Pod, gate string, h types.TargetHealth) error {
	want, changed := gateCondition(p, gate, h)
	if !changed {
		return nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID}, // not of another pod with this name
		// not as a PodCondition, which omits empty fields: they must be emptied
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": want.Type, "status": want.Status, "reason": want.Reason, "message": want.Message,
			"lastTransitionTime": want.LastTransitionTime,
		}}},
	})
	if err != nil {
		return err
	}
	_, err = c.kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, apitypes.StrategicMergePatchType, data,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("readiness gate of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}
