package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// ParseScale parses a value of --scale, such as deployment/web=5.
func ParseScale(text, namespace string) (Change, error) {
	name, count, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 {
		return Change{}, fmt.Errorf("--scale %q: want deployment/NAME=N or nodepool/NAME=N", text)
	}
	return Change{Scale: name, Replicas: n, Namespace: namespace}, nil
}

// scalePool sets the number of nodes of a static pool.
func (a *changedObjects) scalePool(c *Change, key client.ObjectKey) (string, error) {
	at := a.find(&karpv1.NodePool{}, key)
	if at < 0 {
		return "", fmt.Errorf("--scale %s: %w", c.Scale,
			explainGet(apierrors.NewNotFound(schema.GroupResource{Resource: "nodepool"}, key.Name)))
	}
	pool := a.objects[at].DeepCopyObject().(*karpv1.NodePool)
	if pool.Spec.Replicas == nil {
		return "", fmt.Errorf("--scale %s=%d: the NodePool has no spec.replicas: its size follows from its pods; scale "+
			"their Deployment", c.Scale, c.Replicas)
	}
	n := int64(c.Replicas)
	pool.Spec.Replicas, pool.ResourceVersion, pool.Generation = &n, "", 0
	a.objects = slices.Clone(a.objects)
	a.objects[at] = pool
	return fmt.Sprintf("NodePool %s has %d nodes", key.Name, n), nil
}

// boundNodes rejects changes that add too many nodes to static pools.
func (a *changedObjects) boundNodes() error {
	had := map[string]int64{}
	for _, o := range a.in.Cluster.Objects() {
		if pool, ok := o.(*karpv1.NodePool); ok && pool.Spec.Replicas != nil {
			had[pool.Name] = *pool.Spec.Replicas
		}
	}
	room := int64(a.in.MaxNodes)
	for _, o := range a.objects {
		pool, ok := o.(*karpv1.NodePool)
		if !ok || pool.Spec.Replicas == nil {
			continue
		}
		if more := *pool.Spec.Replicas - had[pool.Name]; more > room {
			return fmt.Errorf("NodePool %s with %d nodes: a forecast adds at most %d; ask about fewer", pool.Name,
				*pool.Spec.Replicas, a.in.MaxNodes)
		} else if more > 0 {
			room -= more
		}
	}
	return nil
}
