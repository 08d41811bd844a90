package automode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
)

// isAutoNode reports whether a Node belongs to a NodeClass.
func isAutoNode(o client.Object) bool {
	return o.GetLabels()[eksv1.LabelComputeType] == eksv1.ComputeTypeAuto &&
		o.GetLabels()[karpv1.NodeClassLabelKey(eksv1.GroupVersion.WithKind(eksv1.Kind).GroupKind())] != ""
}

// reconcileNode creates the CNINode of a Node. The Node owns it: the garbage collector deletes it with the Node.
func (c *Controller) reconcileNode(ctx context.Context, name string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := c.o.Cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil {
		return 0, nil
	}
	err := c.o.Client.Create(ctx, &eksv1.CNINode{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("create the CNINode of node %s: %w", name, err)
	}
	return 0, nil
}
