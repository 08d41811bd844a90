package nodeclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// demote relabels the claim of an on-demand instance, and then its Node, if they still say that the instance is
// reserved: its capacity reservation has ended, and it runs on at the on-demand price
// (github.com/aws/karpenter-provider-aws/pkg/controllers/capacityreservation/capacitytype). The next call repeats
// what failed. Young instances are left out: the cloud may not report their reservation yet.
func (g *collector) demote(ctx context.Context, i cloud.Instance) error {
	if i.CapacityType != model.OnDemand || g.isYoung(i.Launched) {
		return nil
	}
	claim := g.cluster.ClaimByProviderID(i.ProviderID)
	if claim == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	if saysReserved(claim.Labels) {
		now, err := g.readClaim(ctx, claim.Name)
		if now == nil || err != nil {
			return err
		}
		before := now.DeepCopy()
		relabel(now.Labels)
		if err := g.writeMeta(ctx, before, now); err != nil {
			return err
		}
		g.log.Info("the capacity reservation of an instance has ended: it is on-demand", "instance", i.ID, "nodeclaim",
			claim.Name)
	}
	for _, node := range g.cluster.NodesByProviderID(i.ProviderID) {
		if err := g.demoteNode(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// demoteNode relabels a Node. One that is not registered yet gets the labels of its claim then.
func (g *collector) demoteNode(ctx context.Context, node *corev1.Node) error {
	if !saysReserved(node.Labels) || !isRegistered(node) || node.DeletionTimestamp != nil {
		return nil
	}
	now := node.DeepCopy()
	relabel(now.Labels)
	return g.writeNode(ctx, node, now)
}

func saysReserved(labels map[string]string) bool {
	return labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved
}

// relabel replaces the labels of a reserved instance by that of an on-demand instance.
func relabel(labels map[string]string) {
	if !saysReserved(labels) {
		return
	}
	labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand
	for key := range cloudprovider.ReservedCapacityLabels {
		delete(labels, key)
	}
}
