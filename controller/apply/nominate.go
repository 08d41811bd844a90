package apply

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// nominationTimeout limits how long a node waits for the nominations of its pods, which are scheduled without them,
// too.
const nominationTimeout = 2 * time.Second

// Nominate makes kube-scheduler reserve room on a Node for the pods planned for the claim's node
// (status.nominatedNodeName, KEP 5278). Otherwise the first node that becomes ready takes whatever pods are pending,
// and the others do not fit what was launched for them. Nominate returns when the pods are nominated, or after
// nominationTimeout. It is safe for concurrent use.
func (a *Applier) Nominate(ctx context.Context, claim, node string) {
	ctx, cancel := context.WithTimeout(ctx, nominationTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	for _, key := range a.o.State.Promised(claim) {
		if !a.nominable(key, node) {
			continue
		}
		group.Go(func() error {
			if err := a.nominate(ctx, key, node); err != nil && !outdated(err) {
				a.o.Log.Warn("cannot nominate a pod; kube-scheduler may bind it elsewhere", "pod",
					key.Namespace+"/"+key.Name, "node", node, "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
}

// nominable reports whether a pod is pending, not nominated to the node already, and not nominated by kube-scheduler
// to a node on which it preempts pods.
func (a *Applier) nominable(key model.PodKey, node string) bool {
	pod := a.o.State.Pod(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	if pod == nil || string(pod.UID) != key.UID || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == node {
		return false
	}
	other := a.o.State.Node(pod.Status.NominatedNodeName)
	return other == nil || other.Labels[karpv1.NodeRegisteredLabelKey] == "true" &&
		other.Labels[karpv1.NodeInitializedLabelKey] != "true"
}

func (a *Applier) nominate(ctx context.Context, key model.PodKey, node string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": key.UID},
		"status":   map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return a.o.Client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
}

// outdated reports whether a patch failed because the pod is gone, replaced by another one, or bound.
func outdated(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}
