package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/lab/process"
)

// handOver makes the other side's controller take over the cluster, as in a migration from Karpenter to Nodeless or
// back. It fails if an instance, a NodeClaim, a Node or a pod does not survive, or if a pod that needs a node of its
// own does not get one from the new controller.
func handOver(ctx context.Context, d *driver) error {
	before, err := d.possessions(ctx)
	if err != nil {
		return err
	}
	if d.spent, err = d.usage(); err != nil {
		return err
	}
	next := sides[slices.IndexFunc(sides, func(s side) bool { return s.name != d.side.name })]
	d.progress.say("%s takes over %d machines, NodeClaims and pods from %s", next.name, len(before), d.side.name)
	old := d.controller
	if d.controller, err = next.start(d.cluster, d.bin); err != nil {
		return err
	}
	if err := d.oneEnds(ctx, old, next.name); err != nil {
		return err
	}
	d.side = &next
	if err := d.getsANode(ctx, pod("first-of-"+next.name, "7", "")); err != nil {
		return err
	}
	for until := time.Now().Add(watchedFor); time.Now().Before(until); {
		if err := sleep(ctx, 10*time.Second); err != nil {
			return err
		}
		after, err := d.possessions(ctx)
		if err != nil {
			return err
		}
		if gone := missing(before, after); len(gone) > 0 {
			return fmt.Errorf("%d of %d did not outlive that %s took over: %s", len(gone), len(before), next.name,
				strings.Join(gone, ", "))
		}
	}
	d.progress.say("all of them are still there %s after %s took over", watchedFor, next.name)
	return nil
}

// oneEnds waits until the old controller has ended while the new one runs. Nodeless waits until Karpenter ends, and
// gives way to Karpenter, which does not know of a Lease in another namespace.
func (d *driver) oneEnds(ctx context.Context, old *process.Process, next string) error {
	if next == "nodeless" {
		if err := sleep(ctx, 10*time.Second); err != nil {
			return err
		}
		old.Stop(stopLimit)
		return nil
	}
	select {
	case <-old.Done():
		return nil
	case <-time.After(time.Minute):
		old.Stop(stopLimit)
		return fmt.Errorf("%s did not give way to %s", d.side.name, next)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	stopLimit = 15 * time.Second
	// watchedFor covers every rule that disrupts: both sides check for drift every five minutes.
	watchedFor = 6 * time.Minute
)

// getsANode creates a pod, waits until it runs, and deletes it.
func (d *driver) getsANode(ctx context.Context, p *corev1.Pod) error {
	pods := d.client.CoreV1().Pods(p.Namespace)
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	for end := time.Now().Add(d.limit + d.boot); ; {
		now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case runs(now):
			return pods.Delete(ctx, p.Name, metav1.DeleteOptions{})
		case time.Now().After(end):
			return fmt.Errorf("pod %s got no node from %s", p.Name, d.side.name)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// possessions returns what must survive a change of controllers, by kind and identity: instances, NodeClaims, Nodes,
// and the pods with a node.
func (d *driver) possessions(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	instances, err := d.running(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		all["instance/"+i.ID] = i.ID
	}
	claims, err := d.claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range claims.Items {
		if c.GetDeletionTimestamp() == nil {
			all["nodeclaim/"+string(c.GetUID())] = c.GetName()
		}
	}
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		all["node/"+string(n.UID)] = n.Name
	}
	pods, err := d.client.CoreV1().Pods(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			all["pod/"+string(p.UID)] = p.Name
		}
	}
	return all, nil
}

// missing names the entries of before that are not in after.
func missing(before, after map[string]string) []string {
	var gone []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[id]; !ok {
			kind, _, _ := strings.Cut(id, "/")
			gone = append(gone, kind+" "+before[id])
		}
	}
	return gone
}

// usage returns the total usage of all controllers that the cluster has had.
func (c *cluster) usage() (usage, error) {
	now, err := usageOf(c.controller.PID())
	return c.spent.add(now), err
}
