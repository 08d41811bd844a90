package whatif

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/nodeclaim/surge"
	"github.com/nodeless/nodeless/controller/translate"
)

// ownedBy reports whether a pod belongs to the Deployment, judging by its ReplicaSet's name.
func ownedBy(pod *corev1.Pod, deployment string) bool {
	return surge.Deployment(&pod.ObjectMeta) == deployment
}

// deployment applies a Deployment: a new template replaces all pods, a new number of replicas adds or deletes some.
func (a *changedObjects) deployment(ctx context.Context, d *appsv1.Deployment) (string, error) {
	key := client.ObjectKeyFromObject(d)
	was := &appsv1.Deployment{}
	err := a.in.Cluster.Get(ctx, key, was)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read Deployment %s: %w", key, explainGet(err))
	}
	n := 1
	if d.Spec.Replicas != nil {
		n = int(*d.Spec.Replicas)
	} else if err == nil && was.Spec.Replicas != nil {
		n = int(*was.Spec.Replicas)
	}
	if err != nil {
		_, err := a.scale(ctx, d, n, &d.Spec.Template)
		return fmt.Sprintf("Deployment %s is created with %d pods", key, n), err
	}
	if sameTemplate(&was.Spec.Template, &d.Spec.Template) {
		return a.scale(ctx, was, n, nil)
	}
	a.drop(a.podsOf(was))
	_, err = a.scale(ctx, d, n, &d.Spec.Template)
	return fmt.Sprintf("Deployment %s changes: spec.template, with %d pods", key, n), err
}

// scale gives a Deployment n pods. New pods are like its existing ones or, if there are none, made from the template.
func (a *changedObjects) scale(ctx context.Context, d *appsv1.Deployment, n int,
	template *corev1.PodTemplateSpec,
) (string, error) {
	have := a.podsOf(d)
	if template == nil {
		template = &d.Spec.Template
	}
	more := n - len(have)
	switch {
	case n < 0:
		return "", fmt.Errorf("deployment %s/%s with %d pods: give 0 or more", d.Namespace, d.Name, n)
	case more > a.in.MaxPods-a.seq:
		return "", fmt.Errorf("deployment %s/%s with %d pods: a forecast adds at most %d; ask about fewer", d.Namespace,
			d.Name, n, a.in.MaxPods)
	case more < 0:
		sortByDeletionOrder(a.in.Cluster.Snapshot().Now, have)
		a.drop(have[:-more])
	case more > 0:
		like := a.podOfTemplate(d, template)
		start := d.Name + "-"
		if len(have) > 0 {
			like, start = have[0], have[0].GenerateName
		}
		if err := a.add(ctx, like, start, more); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Deployment %s/%s has %d pods", d.Namespace, d.Name, n), nil
}

// drop deletes pods.
func (a *changedObjects) drop(pods []*corev1.Pod) {
	gone := map[client.Object]bool{}
	for _, pod := range pods {
		gone[pod] = true
	}
	a.objects = slices.DeleteFunc(slices.Clone(a.objects), func(o client.Object) bool { return gone[o] })
}

// add adds n pending copies of a pod. They share what nobody modifies.
func (a *changedObjects) add(ctx context.Context, like *corev1.Pod, start string, n int) error {
	a.objects = slices.Grow(slices.Clone(a.objects), n)
	now := metav1.NewTime(a.in.Cluster.Snapshot().Now)
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.seq++
		pod := &corev1.Pod{Spec: like.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}, ObjectMeta: metav1.ObjectMeta{
			Namespace: like.Namespace, Name: fmt.Sprintf("%snew-%d", start, a.seq), UID: uidOf(fmt.Sprintf("scaled-%d", a.seq)),
			CreationTimestamp: now, Labels: like.Labels, Annotations: like.Annotations, OwnerReferences: like.OwnerReferences,
		}}
		pod.Spec.NodeName = ""
		a.objects = append(a.objects, pod)
	}
	return nil
}

// podOfTemplate makes a pod from a template.
func (a *changedObjects) podOfTemplate(d *appsv1.Deployment, t *corev1.PodTemplateSpec) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-0", UID: uidOf("set-" + d.Name), Controller: &yes},
			},
		},
		Spec: translate.AsCreated(&t.Spec, a.in.Cluster.State.LimitRanges(d.Namespace)),
	}
	translate.LeanContainers(pod.Spec.InitContainers)
	translate.LeanContainers(pod.Spec.Containers)
	return pod
}
