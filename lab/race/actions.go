package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// apply is one `kubectl apply` of several objects.
func apply(objects ...runtime.Object) action {
	return func(ctx context.Context, d *driver) error { return d.apply(ctx, objects...) }
}

// create creates a pod with a single call.
func create(p *corev1.Pod) action {
	return func(ctx context.Context, d *driver) error {
		_, err := d.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	}
}

// scale sets the replicas of a Deployment.
func scale(name string, replicas int) action {
	return func(ctx context.Context, d *driver) error { return d.scale(ctx, name, replicas) }
}

// inTurn runs actions one after another, until one fails.
func inTurn(all ...action) action {
	return func(ctx context.Context, d *driver) error {
		for _, do := range all {
			if err := do(ctx, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// requirement is a requirement of a NodePool on its nodes' labels.
type requirement struct {
	key, operator, value string
}

var (
	spotOnly   = requirement{"karpenter.sh/capacity-type", "In", "spot"}
	smallNodes = requirement{"karpenter.k8s.aws/instance-cpu", "Lt", "9"}
	m5Large    = requirement{"node.kubernetes.io/instance-type", "In", "m5.large"}
	m52xLarge  = requirement{"node.kubernetes.io/instance-type", "In", "m5.2xlarge"}
	oneZone    = requirement{"topology.kubernetes.io/zone", "In", "us-west-2a"}
)

// require sets requirements of the pool, replacing those with the same keys.
func require(all ...requirement) action {
	return func(ctx context.Context, d *driver) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			pool, err := d.pools.Get(ctx, poolName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			path := []string{"spec", "template", "spec", "requirements"}
			have, _, err := unstructured.NestedSlice(pool.Object, path...)
			if err != nil {
				return err
			}
			for _, r := range all {
				have = slices.DeleteFunc(have, func(h any) bool { m, _ := h.(map[string]any); return m["key"] == r.key })
				have = append(have, map[string]any{"key": r.key, "operator": r.operator, "values": []any{r.value}})
			}
			if err := unstructured.SetNestedSlice(pool.Object, have, path...); err != nil {
				return err
			}
			_, err = d.pools.Update(ctx, pool, metav1.UpdateOptions{})
			return err
		})
	}
}

// settled makes the pool disrupt only nodes that have drifted or expired.
func settled(ctx context.Context, d *driver) error {
	patch := []byte(`{"spec":{"disruption":{"consolidateAfter":"Never"}}}`)
	_, err := d.pools.Patch(ctx, poolName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// running returns the running instances, most expensive first, then by age: the expensive ones carry the most pods.
func (d *driver) running(ctx context.Context) ([]instance, error) {
	all, err := d.instances(ctx)
	all = slices.DeleteFunc(all, func(i instance) bool { return !i.TerminatedAt.IsZero() })
	slices.SortStableFunc(all, func(a, b instance) int {
		return cmp.Or(cmp.Compare(b.PriceMicros, a.PriceMicros), a.LaunchedAt.Compare(b.LaunchedAt))
	})
	return all, err
}

// interrupt sends an interruption notice to a share of the spot instances, rounded up.
func interrupt(share float64) action {
	return func(ctx context.Context, d *driver) error {
		all, err := d.running(ctx)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(i instance) bool { return i.CapacityType != "spot" })
		n := int(math.Ceil(share * float64(len(all))))
		for _, i := range all[:n] {
			id := map[string]string{"instanceId": i.ID}
			if err := d.region(ctx, http.MethodPost, "interrupt", id, &struct{}{}); err != nil {
				return err
			}
		}
		d.progress.say("%d of %d instances interrupted", n, len(all))
		return nil
	}
}

// terminate terminates instances at once, as a user of the AWS console might.
func terminate(n int) action {
	return func(ctx context.Context, d *driver) error {
		all, err := d.running(ctx)
		if err != nil {
			return err
		}
		var ids []string
		for _, i := range all[:min(n, len(all))] {
			ids = append(ids, i.ID)
		}
		client := ec2.NewFromConfig(aws.Config{
			Region: d.session.Region, BaseEndpoint: &d.session.RegionURL,
			Credentials: credentials.NewStaticCredentialsProvider("race", "race", ""),
		})
		_, err = client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	}
}

// deleteNodes deletes the first n Nodes by name, like `kubectl delete node`: their pods are drained.
func deleteNodes(n int) action {
	return func(ctx context.Context, d *driver) error {
		nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		for _, node := range nodes.Items[:min(n, len(nodes.Items))] {
			if err := d.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("delete node %s: %w", node.Name, err)
			}
		}
		return nil
	}
}
