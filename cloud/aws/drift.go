package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// Reasons why an instance no longer matches its class (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption).
const (
	nodeClassDrift     = "NodeClassDrift"
	amiDrift           = "AMIDrift"
	subnetDrift        = "SubnetDrift"
	securityGroupDrift = "SecurityGroupDrift"
	reservationDrift   = "CapacityReservationDrift"
	placementDrift     = "PlacementGroupDrift"
)

var (
	_ cloud.Drifter  = (*Provider)(nil)
	_ cloud.Repairer = (*Provider)(nil)
)

// Drifted compares an instance with its class: the class hash on its NodeClaim, its image with the one that would be
// chosen now, and its subnet, security groups, capacity reservation and placement group as EC2 reports them.
func (p *Provider) Drifted(ctx context.Context, m cloud.Launched) (_ string, err error) {
	defer p.called("Drifted", p.now(), &err)
	if isGroupRef(m.Class) { // an instance refresh of the group replaces its instances
		return "", nil
	}
	if class := p.o.Classes(m.Class); class != nil && hashDiffers(class, m.Annotations) {
		return nodeClassDrift, nil
	}
	class, err := p.readyClass(m.Class)
	if err != nil {
		return "", fmt.Errorf("drift of instance %s: %w", m.InstanceID, err)
	}
	catalog, err := p.catalogs.of(ctx, class)
	if err != nil {
		return "", fmt.Errorf("drift of instance %s: %w", m.InstanceID, err)
	}
	if image, ok := catalog.images[m.Type]; ok && m.ImageID != "" && image < len(class.Status.AMIs) &&
		class.Status.AMIs[image].ID != m.ImageID {
		return amiDrift, nil
	}
	now, err := p.Get(ctx, m.InstanceID)
	if err != nil {
		return "", fmt.Errorf("drift of instance %s: %w", m.InstanceID, err)
	}
	return cmp.Or(networkDrift(class, now), p.reservedDrift(class, now), catalog.placement.drift(now)), nil
}

// reservedDrift compares an instance's capacity reservation with the class. An instance whose reservation has ended is
// on-demand and does not drift.
func (a *account) reservedDrift(class *ec2v1.EC2NodeClass, m cloud.Instance) string {
	if m.CapacityType != model.Reserved || a.o.IgnoreReservations {
		return ""
	}
	if slices.ContainsFunc(class.Status.CapacityReservations, func(r ec2v1.CapacityReservation) bool {
		return r.ID == m.Labels[ec2v1.LabelCapacityReservationID] && r.State != ec2v1.CapacityReservationStateExpiring
	}) {
		return ""
	}
	return reservationDrift
}

// hashDiffers reports whether the hash of the class has changed since the claim was created. Hashes of different
// versions cannot be compared.
func hashDiffers(class *ec2v1.EC2NodeClass, claim map[string]string) bool {
	hashKey, versionKey := HashKeys(class)
	hash, was, version := class.Annotations[hashKey], claim[hashKey], class.Annotations[versionKey]
	if version == "" || version != claim[versionKey] {
		return false
	}
	return hash != "" && was != "" && hash != was
}

// networkDrift compares an instance's subnet and security groups with the class. It ignores what EC2 does not report.
func networkDrift(class *ec2v1.EC2NodeClass, m cloud.Instance) string {
	if len(m.SecurityGroups) > 0 && len(class.Status.SecurityGroups) > 0 {
		var want []string
		for _, g := range class.Status.SecurityGroups {
			want = append(want, g.ID)
		}
		slices.Sort(want)
		if !slices.Equal(slices.Compact(want), slices.Compact(slices.Sorted(slices.Values(m.SecurityGroups)))) {
			return securityGroupDrift
		}
	}
	in := func(s ec2v1.Subnet) bool { return s.ID == m.Subnet }
	if m.Subnet != "" && !slices.ContainsFunc(class.Status.Subnets, in) {
		return subnetDrift
	}
	return ""
}

// DefaultRepairPolicies returns Karpenter's policies on AWS: conditions of the kubelet and of EKS's node monitoring
// agent (github.com/aws/karpenter-provider-aws/pkg/cloudprovider).
func DefaultRepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "Ready", Status: "Unknown", Toleration: 30 * time.Minute},
		{Condition: "AcceleratedHardwareReady", Status: "False", Toleration: 10 * time.Minute},
		{Condition: "StorageReady", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "NetworkingReady", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "KernelReady", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "ContainerRuntimeReady", Status: "False", Toleration: 30 * time.Minute},
	}
}

// RepairPolicies returns the policies of the options.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	if p.o.RepairPolicies != nil {
		return p.o.RepairPolicies
	}
	return DefaultRepairPolicies()
}

// Ended returns EC2's state reason of an instance that is ending or has ended. EC2 shows it for about an hour.
func (p *Provider) Ended(ctx context.Context, id string) (_ cloud.Ending, err error) {
	defer p.called("Ended", p.now(), &err)
	answer, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if isUnknownInstance(code(err)) {
		return cloud.Ending{}, nil
	}
	if err != nil {
		err = wrap("describe instances", "ec2:DescribeInstances", err)
		return cloud.Ending{}, fmt.Errorf("ask why instance %s ended: %w", id, err)
	}
	for _, r := range answer.Reservations {
		for _, i := range r.Instances {
			if i.StateReason != nil && i.State != nil && hasEnded(i.State.Name) {
				return endingOf(awssdk.ToString(i.StateReason.Code), awssdk.ToString(i.StateReason.Message)), nil
			}
		}
	}
	return cloud.Ending{}, nil
}

func hasEnded(s ec2types.InstanceStateName) bool {
	return s == ec2types.InstanceStateNameShuttingDown || s == ec2types.InstanceStateNameTerminated
}

// endingOf interprets a state reason. Some mean that the instance cannot start, because a key, a volume or a snapshot
// is not available (EC2 user guide, "Troubleshoot Amazon EC2 instance launch issues", instance terminates
// immediately).
func endingOf(code, message string) cloud.Ending {
	out := cloud.Ending{Code: code, Message: message}
	switch code {
	case "Client.UserInitiatedShutdown", "Client.UserInitiatedHibernate", "Client.InstanceInitiatedShutdown": // intended
	case "Server.InternalError":
		out.AtLaunch = true
	default:
		out.AtLaunch = strings.HasPrefix(code, "Client.")
	}
	return out
}
