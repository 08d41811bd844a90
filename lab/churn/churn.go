// Package churn is a simulated cluster whose pods and nodes are created, change, are deleted and are created again
// under the same name, observed through watches that break. Every follower of the cluster must end up with the API
// server's state.
package churn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/lab/apisim"
)

// Nodes is the maximum number of nodes. NodeName gives their names.
const Nodes = 8

// NodeName returns the name of a node by its index.
func NodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// Cluster is a changing cluster on a server. The changes are always the same.
type Cluster struct {
	api client.Client
	r   *rand.Rand
}

// New returns an empty cluster on a server.
func New(server *apisim.Server) (*Cluster, error) {
	api, err := client.New(server.Config("churn", nil),
		client.Options{Scheme: scheme.Scheme, HTTPClient: &http.Client{Transport: server}})
	return &Cluster{api, rand.New(rand.NewPCG(6, 14))}, err
}

// Read returns all pods and nodes.
func (c *Cluster) Read(ctx context.Context) (pods corev1.PodList, nodes corev1.NodeList, err error) {
	if err = c.api.List(ctx, &pods); err == nil {
		err = c.api.List(ctx, &nodes)
	}
	return pods, nodes, err
}

// Change makes one change: it creates, modifies or deletes a pod or a node.
func (c *Cluster) Change(ctx context.Context) error {
	name := fmt.Sprintf("web-%d", c.r.IntN(60))
	node := NodeName(c.r.IntN(Nodes))
	pod := &corev1.Pod{}
	err := c.api.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, pod)
	switch {
	case c.r.IntN(20) == 0:
		return c.changeNode(ctx, node)
	case apierrors.IsNotFound(err):
		return c.api.Create(ctx, c.pod(name, node))
	case err != nil:
		return err
	}
	return c.changePod(ctx, pod, node)
}

func (c *Cluster) pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(1+c.r.IntN(500)), resource.DecimalSI)},
	}}}
	if c.r.IntN(4) == 0 {
		p.Spec.NodeName = node // as DaemonSets once did
	}
	return p
}

func (c *Cluster) changePod(ctx context.Context, pod *corev1.Pod, node string) error {
	now := client.GracePeriodSeconds(0)
	switch c.r.IntN(6) {
	case 0: // it is deleted, whatever its state
		return c.api.Delete(ctx, pod, now)
	case 1: // a new pod takes its name before anyone notices
		if err := c.api.Delete(ctx, pod, now); err != nil {
			return err
		}
		return c.api.Create(ctx, c.pod(pod.Name, node))
	case 2: // graceful deletion
		return c.api.Delete(ctx, pod)
	case 3:
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			return c.api.SubResource("binding").Create(ctx, pod,
				&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
		}
		fallthrough
	default:
		was := pod.DeepCopy()
		pod.Status.Phase = []corev1.PodPhase{
			corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed,
			corev1.PodSucceeded,
		}[c.r.IntN(5)]
		return c.api.Status().Patch(ctx, pod, client.MergeFrom(was))
	}
}

func (c *Cluster) changeNode(ctx context.Context, name string) error {
	node := &corev1.Node{}
	err := c.api.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return c.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err != nil || c.r.IntN(2) == 0 {
		return err
	}
	return c.api.Delete(ctx, node)
}
