package metrics

import (
	"fmt"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// view is the cluster at one scrape. Nothing of it is changed: it is shared with the cache.
type view struct {
	now      time.Time
	state    State
	snapshot *model.Snapshot

	podList  corev1.PodList
	nodeList corev1.NodeList
	claims   karpv1.NodeClaimList
	poolList karpv1.NodePoolList
	classes  ec2v1.EC2NodeClassList

	nodes map[string]*corev1.Node
	// claimed are the providers' IDs of claims: a Node is managed if its own is among them.
	claimed map[string]bool
}

func (c *Cluster) view() (*view, error) {
	v := &view{now: c.o.Clock.Now(), state: c.o.State, nodes: map[string]*corev1.Node{}, claimed: map[string]bool{}}
	for what, err := range map[string]error{
		"Pods": c.list(&v.podList), "Nodes": c.list(&v.nodeList), "NodeClaims": c.list(&v.claims),
		"NodePools": c.list(&v.poolList), "EC2NodeClasses": c.list(&v.classes),
	} {
		if err != nil {
			return nil, fmt.Errorf("metrics: list %s: %w", what, err)
		}
	}
	v.snapshot = c.o.State.Snapshot()
	for i := range v.nodeList.Items {
		v.nodes[v.nodeList.Items[i].Name] = &v.nodeList.Items[i]
	}
	for i := range v.claims.Items {
		if id := v.claims.Items[i].Status.ProviderID; id != "" {
			v.claimed[id] = true
		}
	}
	return v, nil
}
