package watcher

import (
	"fmt"
	"strings"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/explain/record"
	logs "github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/view"
)

func (f *Feed) node(o *corev1.Node) *ranged {
	n := &view.Node{
		Name: o.Name, ProviderID: o.Spec.ProviderID, Labels: o.Labels, Created: o.CreationTimestamp.Time,
		Cordoned: o.Spec.Unschedulable,
		Deleting: o.DeletionTimestamp != nil, DoNotDisrupt: o.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true",
		Pod: o.Annotations[microvm.PodAnnotation], Allocatable: f.amounts(o.Status.Allocatable), Price: f.price(o.Labels),
	}
	for _, t := range o.Spec.Taints {
		n.Disrupted = n.Disrupted || t.Key == karpv1.DisruptedTaintKey
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Ready, n.ReadyChanged = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return &ranged{n, inRange(o.Spec.PodCIDRs)}
}

func (f *Feed) claim(o *karpv1.NodeClaim) *view.Claim {
	c := &view.Claim{
		Name: o.Name, Node: o.Status.NodeName, ProviderID: o.Status.ProviderID, Labels: o.Labels,
		Created:  o.CreationTimestamp.Time,
		Deleting: o.DeletionTimestamp != nil, DoNotDisrupt: o.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true",
		Pod: o.Annotations[microvm.PodAnnotation], Allocatable: f.amounts(o.Status.Allocatable), Price: f.price(o.Labels),
	}
	for _, s := range o.Status.Conditions {
		at, is := s.LastTransitionTime.Time, s.Status == metav1.ConditionTrue
		switch {
		case s.Type == karpv1.ConditionTypeLaunched && is:
			c.Launched = at
		case s.Type == karpv1.ConditionTypeRegistered && is:
			c.Registered = at
		case s.Type == karpv1.ConditionTypeInitialized && is:
			c.Initialized = at
		case s.Type == karpv1.ConditionTypeDrifted && is:
			c.Drift = "drifted: " + s.Reason
		case s.Type == karpv1.ConditionTypeDisruptionReason && is:
			c.Disruption = s.Reason
		case (s.Type == karpv1.ConditionTypeLaunched || s.Type == karpv1.ConditionTypeRegistered) &&
			s.Status == metav1.ConditionFalse:
			c.Problem = s.Reason + ": " + s.Message
		}
	}
	if command, ok, err := translate.CommandOf(o); ok && err == nil {
		c.Disruption = string(command.Method)
		if command.Launches > 0 {
			c.Disruption += fmt.Sprintf(", after %d replacement(s)", command.Launches)
		}
	}
	if kind, _, ok := translate.Interrupted(o); ok {
		c.Interruption = strings.ReplaceAll(kind, "_", " ")
	}
	return c
}

func (f *Feed) pod(o *corev1.Pod) *view.Pod {
	p := &view.Pod{
		UID: string(o.UID),
		// Intern names that many pods share.
		Namespace: unique.Make(o.Namespace).Value(), Name: strings.Clone(o.Name), Node: unique.Make(o.Spec.NodeName).Value(),
		Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
		Requests: f.amounts(resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{})),
		Workload: workload(o),
	}
	p.Revision = revision(o, p.Workload)
	if !o.Spec.HostNetwork && !v1beta1.AsksForBranch(o) && (o.Status.PodIP != "" || o.Status.Phase == corev1.PodRunning) {
		p.Requests[view.Addresses] = 1
	}
	switch o.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		p.Phase = view.Ended
	case corev1.PodRunning:
		p.Phase = view.Running
	}
	for i, name := range f.o.Model.Resources() {
		if name == string(corev1.ResourcePods) {
			p.Requests[i] = 1
		}
	}
	if p.Node == "" {
		p.Gated = len(o.Spec.SchedulingGates) > 0
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				p.Verdict = c.Message
			}
		}
	}
	return p
}

// workload returns what created a pod, the zero value for a pod without a controller.
func workload(o *corev1.Pod) (none unique.Handle[view.Object]) {
	w := logs.WorkloadOf(o)
	if w == (record.Workload{}) {
		return none
	}
	return unique.Make(view.Object(w))
}

// revision returns the template of its workload from which a pod was created, by the labels that Kubernetes'
// controllers set; the zero value for pods without such a label.
func revision(o *corev1.Pod, of unique.Handle[view.Object]) (none unique.Handle[view.Revision]) {
	if of == (unique.Handle[view.Object]{}) {
		return none
	}
	r := view.Revision{Workload: of.Value(), Hash: o.Labels[appsv1.ControllerRevisionHashLabelKey]}
	if r.Workload.Kind == "Deployment" {
		r.Hash = o.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	}
	if r.Hash == "" {
		return none
	}
	return unique.Make(r)
}

// saying is an event: the object it is about, and what it says.
type saying struct {
	about view.Object
	said  view.Said
}

func event(o *corev1.Event) *saying {
	at := o.LastTimestamp.Time
	for _, t := range []time.Time{o.EventTime.Time, o.FirstTimestamp.Time, o.CreationTimestamp.Time} {
		if at.IsZero() {
			at = t
		}
	}
	about := view.Object{
		Kind:      unique.Make(o.InvolvedObject.Kind).Value(),
		Namespace: unique.Make(o.InvolvedObject.Namespace).Value(), Name: o.InvolvedObject.Name,
	}
	if about.Kind != "Pod" {
		about.Namespace = "" // events about cluster-scoped objects are in a namespace, too
	}
	return &saying{about, view.Said{
		Reason: unique.Make(o.Reason).Value(), Message: unique.Make(o.Message).Value(),
		At: at, UID: string(o.InvolvedObject.UID),
	}}
}

func (f *Feed) amounts(list corev1.ResourceList) view.Amounts {
	var out view.Amounts
	for name, q := range list {
		if record.IsGPU(string(name)) {
			out[view.GPUs] += q.Value()
		}
	}
	for i, name := range f.o.Model.Resources() {
		q, ok := list[corev1.ResourceName(name)]
		switch {
		case !ok:
		case name == string(corev1.ResourceCPU):
			out[i] = q.MilliValue()
		default:
			out[i] = q.Value()
		}
	}
	return out
}

func (f *Feed) price(labels map[string]string) int64 {
	if f.o.Unpriced {
		return 0
	}
	return view.PriceOf(labels)
}
