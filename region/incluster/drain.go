package incluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/drain"

	"github.com/nodeless/nodeless/region"
)

// drainTime is how long EKS waits for the pods of a node that a node group is terminating (EKS user guide, "Managed
// node group update behavior").
const drainTime = 15 * time.Minute

// drainNodes drains the nodes that managed node groups are terminating, as EKS does, until ctx is done.
func (c *Cluster) drainNodes(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	begun := map[string]bool{} // by token of the lifecycle action
	for {
		changed := c.region.HooksChanged()
		for _, g := range c.region.AutoScalingGroups() {
			for _, m := range g.Members {
				for _, w := range m.Waits {
					if w.Hook != region.DrainHook || begun[w.Token] {
						continue
					}
					begun[w.Token] = true
					work.Go(func() { c.drain(ctx, g.Name, m.ID, w.Token) })
				}
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// drain drains a node and lets its instance terminate, even if pods remain.
func (c *Cluster) drain(ctx context.Context, group, instance, token string) {
	if err := c.drainNode(ctx, instance); err != nil && ctx.Err() == nil {
		c.log.Warn("EKS: node not drained", "group", group, "instance", instance, "error", err)
	}
	if ctx.Err() != nil {
		return // the next process drains it again
	}
	err := c.region.CompleteLifecycleAction(group, region.DrainHook, token, instance, region.HookContinue)
	if err != nil { // the instance ended in the meantime
		c.log.Debug("EKS: node drained", "instance", instance, "error", err)
	}
}

func (c *Cluster) drainNode(ctx context.Context, instance string) error {
	node, err := c.nodeOf(ctx, instance)
	if err != nil || node == nil {
		return err
	}
	h := &drain.Helper{
		Ctx: ctx, Client: c.clientset, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: -1, Timeout: drainTime, EvictErrorRetryDelay: 5 * time.Second, Out: io.Discard,
		ErrOut: io.Discard,
	}
	if err := drain.RunCordonOrUncordon(h, node, true); err != nil {
		return fmt.Errorf("cordon %s: %w", node.Name, err)
	}
	pods, errs := h.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return h.DeleteOrEvictPods(pods.Pods())
}

// nodeOf returns the Node of an instance; nil if it has none.
func (c *Cluster) nodeOf(ctx context.Context, instance string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		if strings.HasSuffix(nodes.Items[i].Spec.ProviderID, "/"+instance) {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}
