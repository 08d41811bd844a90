package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// profiles writes the statuses of FargateProfiles, and deletes the pods of deleted profiles.
type profiles struct {
	o     *Options
	pods  *records
	hosts *hosts
}

// update writes the status of one profile, or deletes its pods if it is gone.
func (s *profiles) update(ctx context.Context, name string) (time.Duration, error) {
	var pods corev1.PodList
	if err := s.o.Cache.List(ctx, &pods, client.MatchingFields{byProfile: name},
		client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list pods of FargateProfile %s: %w", name, err)
	}
	p := &v1alpha1.FargateProfile{}
	err := s.o.Cache.Get(ctx, client.ObjectKey{Name: name}, p)
	if apierrors.IsNotFound(err) {
		return 0, s.deletePods(ctx, name, pods.Items)
	}
	if err != nil {
		return 0, fmt.Errorf("read FargateProfile %s: %w", name, err)
	}
	before := p.DeepCopy()
	p.Status.Pods, p.Status.Pending = 0, 0
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case terminal(pod):
		case pod.Spec.NodeName != "":
			p.Status.Pods++
		case pod.DeletionTimestamp == nil:
			p.Status.Pending++
		}
	}
	p.Status.Resources = s.usage(name)
	ready := s.ready(&p.Spec)
	ready.ObservedGeneration = p.Generation
	apimeta.SetStatusCondition(&p.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, p.Status) {
		return 0, nil
	}
	if err := s.o.Client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the status of FargateProfile %s: %w", name, err)
	}
	return 0, nil
}

// deletePods deletes the pods that ran with a deleted profile, as EKS does ("If you delete a Fargate profile, any
// Pods running on Fargate that were created with the profile are deleted"). Pods that name a profile that never
// existed stay Pending and report it. If the CRD of FargateProfiles is gone, Nodeless is being uninstalled, and the
// pods stay.
func (s *profiles) deletePods(ctx context.Context, name string, pods []corev1.Pod) error {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		given := p.Spec.NodeName != "" || p.Annotations[fargate.CapacityProvisioned] != ""
		return !given || p.DeletionTimestamp != nil
	})
	if len(pods) == 0 {
		return nil
	}
	err := s.o.Client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.FargateProfile{})
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return nil // it was recreated
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read FargateProfile %s, whose pods would be deleted: %w", name, err)
	case !errors.As(err, &status) || status.Status().Details == nil || status.Status().Details.Name != name:
		return nil // the kind is missing, not just the profile
	}
	for i := range pods {
		p := &pods[i]
		s.o.Recorder.Event(p, corev1.EventTypeNormal, "FargateProfileDeleted",
			"The pod is deleted, since its FargateProfile "+name+" was")
		err := s.o.Client.Delete(ctx, p.DeepCopy(), client.Preconditions{UID: &p.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete pod %s/%s, whose FargateProfile %s is gone: %w", p.Namespace, p.Name, name, err)
		}
	}
	return nil
}

// usage returns the total size and number of a profile's microVMs, as its limits count them.
func (s *profiles) usage(profile string) corev1.ResourceList {
	sum, pods := used(s.pods.reservations(), func(r reservation) bool { return r.profile == profile && !r.over })
	list := sum.List()
	delete(list, corev1.ResourceEphemeralStorage)
	list[corev1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
	return list
}

// ready returns the condition that tells whether pods of a profile get microVMs.
func (s *profiles) ready(spec *v1alpha1.FargateProfileSpec) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoHost}
	var good, bad []string
	for name, d := range s.hosts.describe() {
		switch why := wrongEngine(d.Engine, spec.Engine); {
		case !d.Ready:
			bad = append(bad, name+": "+d.Message)
		case why != "":
			bad = append(bad, name+": "+why)
		default:
			good = append(good, fmt.Sprintf("%s (%s)", name, d.Engine))
		}
	}
	slices.Sort(good)
	slices.Sort(bad)
	switch {
	case len(good) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonHostsReady,
			"microVM hosts: "+strings.Join(good, ", ")
	case len(bad) > 0:
		c.Message = "pods that match stay Pending: " + strings.Join(bad, "; ")
	default:
		c.Message = "pods that match stay Pending: no microVM host is registered with the cluster"
	}
	return c
}
