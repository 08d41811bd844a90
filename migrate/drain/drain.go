// Package drain moves pods off nodes that no NodePool launched, through the Eviction API as kubectl drain does, and
// reports what delays it.
package drain

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubectl/pkg/drain"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/migrate"
)

// Drainer drains nodes of a cluster. Its methods are safe for concurrent use; they may call Say concurrently.
type Drainer struct {
	Client kubernetes.Interface
	Say    func(format string, args ...any)
}

// helper returns kubectl's helper for draining a node.
func (d Drainer) helper(ctx context.Context) *drain.Helper {
	return &drain.Helper{
		Ctx: ctx, Client: d.Client, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: -1, EvictErrorRetryDelay: 2 * time.Second, Out: io.Discard,
		ErrOut: &waits{say: d.Say, said: map[string]bool{}},
	}
}

// Pods returns the pods of a node that a drain evicts.
func (d Drainer) Pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, errs := d.helper(ctx).GetPodsForDeletion(node)
	if len(errs) > 0 {
		return nil, fmt.Errorf("pods of node %s: %w", node, errs[0])
	}
	return slices.DeleteFunc(list.Pods(), func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}

// Evict evicts pods as fast as their budgets allow and waits until they are gone, for at most timeout; 0 = no limit.
func (d Drainer) Evict(ctx context.Context, pods []corev1.Pod, timeout time.Duration) error {
	h := d.helper(ctx)
	h.Timeout = timeout
	return h.DeleteOrEvictPods(pods)
}

// ChangeNode updates a node with f, and retries if something else changed the node in between. f returns false if
// nothing has to change. A missing node needs no change.
func (d Drainer) ChangeNode(ctx context.Context, name string, f func(*corev1.Node) bool) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := d.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !f(n) {
			return err
		}
		_, err = d.Client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update node %s: %w", name, err)
	}
	return nil
}

// Objection says why a pod must not be evicted without its owner's consent; "" if it may be.
func Objection(p *corev1.Pod) string {
	switch {
	case metav1.GetControllerOf(p) == nil:
		return "has no controller and would be lost"
	case p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true":
		return "has " + karpv1.DoNotDisruptAnnotationKey
	case p.Annotations[migrate.SafeToEvict] == "false":
		return "is not safe-to-evict"
	}
	return ""
}

// waits reports once for each pod that its budget allows no eviction; kubectl's drain reports that at every attempt.
// A drain writes from several goroutines.
type waits struct {
	mu   sync.Mutex
	say  func(string, ...any)
	said map[string]bool
}

var refused = regexp.MustCompile(`evicting pods/"([^"]+)" -n "([^"]+)".*violate the pod's disruption budget`)

// Write implements io.Writer.
func (w *waits) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range refused.FindAllStringSubmatch(string(text), -1) {
		if pod := m[2] + "/" + m[1]; !w.said[pod] {
			w.said[pod] = true
			w.say("waiting: the PodDisruptionBudget of pod %s allows no eviction now", pod)
		}
	}
	return len(text), nil
}
