package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// instances makes the calls about existing instances.
type instances struct {
	*account
	get       *batcher[cloud.Instance]
	terminate *batcher[struct{}]

	mu sync.Mutex
	// groupsOf are the Auto Scaling groups of the instances that this process has seen lately; "" means none.
	groupsOf map[string]string
}

func newInstances(a *account) *instances {
	s := &instances{account: a, groupsOf: map[string]string{}}
	s.get = newBatcher(a.ctx, a.o.Clock, s.describeBatch)
	s.terminate = newBatcher(a.ctx, a.o.Clock, s.terminateBatch)
	return s
}

// Get finds one instance by ID. Calls at about the same time share one DescribeInstances.
func (p *Provider) Get(ctx context.Context, id string) (_ cloud.Instance, err error) {
	defer p.called("Get", p.now(), &err)
	m, err := p.instances.get.do(ctx, id)
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get instance %s: %w", id, err)
	}
	return m, nil
}

// Terminate starts the termination of an instance. Calls at about the same time share one TerminateInstances.
func (p *Provider) Terminate(ctx context.Context, id string) (err error) {
	defer p.called("Terminate", p.now(), &err)
	if ofGroup, err := p.groups.terminate(ctx, id); ofGroup || err != nil {
		if err != nil {
			return fmt.Errorf("terminate instance %s: %w", id, err)
		}
		return nil
	}
	if _, err := p.instances.terminate.do(ctx, id); err != nil {
		if errors.Is(err, cloud.ErrNotFound) {
			p.reservations.ended()
		}
		return fmt.Errorf("terminate instance %s: %w", id, err)
	}
	return nil
}

// List returns every instance of the cluster that is not terminated.
func (p *Provider) List(ctx context.Context) (_ []cloud.Instance, err error) {
	defer p.called("List", p.now(), &err)
	instances, err := p.instances.describe(ctx,
		&ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(1000), Filters: []ec2types.Filter{
			filter("tag-key", ec2v1.NodeClaimTagKey),
			filter("tag:"+ec2v1.EKSClusterNameTagKey, p.o.ClusterName),
			filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down"),
		}})
	if err != nil {
		return nil, fmt.Errorf("list instances of cluster %s: %w", p.o.ClusterName, err)
	}
	p.instances.forgetOthers(instances)
	return instances, nil
}

// byToken returns the instances launched with a token, in any state.
func (s *instances) byToken(ctx context.Context, token string) ([]cloud.Instance, error) {
	instances, err := s.describe(ctx,
		&ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(1000), Filters: []ec2types.Filter{
			filter("tag:"+tagToken, token), filter("tag:"+ec2v1.EKSClusterNameTagKey, s.o.ClusterName),
		}})
	if err != nil {
		return nil, fmt.Errorf("look for an earlier launch: %w", err)
	}
	return instances, nil
}

func (s *instances) describe(ctx context.Context, in *ec2.DescribeInstancesInput) ([]cloud.Instance, error) {
	var out []cloud.Instance
	err := eachPage(ctx, ec2.NewDescribeInstancesPaginator(s.ec2, in), "describe instances", "ec2:DescribeInstances",
		func(page *ec2.DescribeInstancesOutput) {
			for _, r := range page.Reservations {
				for _, i := range r.Instances {
					out = append(out, instanceOf(i))
					s.noteGroup(awssdk.ToString(i.InstanceId), tagOf(i, groupTag))
				}
			}
		})
	slices.SortFunc(out, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

// describeMembers returns the pending and running instances of an Auto Scaling group.
func (s *instances) describeMembers(ctx context.Context, group string) ([]cloud.Instance, error) {
	return s.describe(ctx, &ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(1000), Filters: []ec2types.Filter{
		filter("tag:"+groupTag, group), filter("instance-state-name", "pending", "running"),
	}})
}

// noteGroup remembers the Auto Scaling group of an instance, "" for none.
func (s *instances) noteGroup(id, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groupsOf[id] = group
}

// forgetOthers forgets the groups of instances that are not in exist.
func (s *instances) forgetOthers(exist []cloud.Instance) {
	ids := make(map[string]bool, len(exist))
	for i := range exist {
		ids[exist[i].ID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.groupsOf, func(id, _ string) bool { return !ids[id] })
}

// groupOf returns the Auto Scaling group of an instance, "" if it has none or is gone.
func (s *instances) groupOf(ctx context.Context, id string) (string, error) {
	s.mu.Lock()
	group, known := s.groupsOf[id]
	s.mu.Unlock()
	if known {
		return group, nil
	}
	_, err := s.get.do(ctx, id) // notes it
	if err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groupsOf[id], nil
}

func tagOf(i ec2types.Instance, key string) string {
	for _, t := range i.Tags {
		if awssdk.ToString(t.Key) == key {
			return awssdk.ToString(t.Value)
		}
	}
	return ""
}

// instanceOf translates an instance of EC2.
func instanceOf(i ec2types.Instance) cloud.Instance {
	m := cloud.Instance{
		ID: awssdk.ToString(i.InstanceId), Type: string(i.InstanceType), ImageID: awssdk.ToString(i.ImageId),
		CapacityType: model.OnDemand, Launched: awssdk.ToTime(i.LaunchTime), Subnet: awssdk.ToString(i.SubnetId),
	}
	for _, g := range i.SecurityGroups {
		m.SecurityGroups = append(m.SecurityGroups, awssdk.ToString(g.GroupId))
	}
	var placed map[string]string
	if i.Placement != nil {
		m.Zone = awssdk.ToString(i.Placement.AvailabilityZone)
		placed = placementLabels(i.Placement)
		if i.Placement.Tenancy == ec2types.TenancyDedicated {
			placed[ec2v1.LabelInstanceTenancy] = dedicatedTenancy
		}
	}
	if i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot || i.SpotInstanceRequestId != nil {
		m.CapacityType = model.Spot
	}
	reserved := reservedLabels(i)
	if reserved != nil {
		m.CapacityType = model.Reserved
	}
	for _, t := range i.Tags {
		switch awssdk.ToString(t.Key) {
		case ec2v1.NodeClaimTagKey:
			m.Claim = awssdk.ToString(t.Value)
		case ec2v1.NodePoolTagKey:
			m.Pool = awssdk.ToString(t.Value)
		case ec2v1.NodeClassTagKey:
			m.Class = awssdk.ToString(t.Value)
		}
	}
	if i.State != nil {
		m.State = instanceState(i.State.Name)
	}
	m.ProviderID = providerID(m.Zone, m.ID)
	m.Labels = map[string]string{
		model.LabelInstanceType: m.Type, model.LabelZone: m.Zone, model.LabelCapacityType: m.CapacityType,
		model.LabelOS: "linux",
	}
	maps.Copy(m.Labels, reserved)
	maps.Copy(m.Labels, placed)
	if a, ok := ec2v1.AWSToKubeArchitectures[string(i.Architecture)]; ok {
		m.Labels[model.LabelArch] = a
	}
	return m
}

// instanceState translates a state. A stopped instance counts as stopping, since nothing here starts it again.
func instanceState(s ec2types.InstanceStateName) cloud.InstanceState {
	switch s {
	case ec2types.InstanceStateNamePending:
		return cloud.Pending
	case ec2types.InstanceStateNameRunning:
		return cloud.Running
	case ec2types.InstanceStateNameStopping, ec2types.InstanceStateNameStopped:
		return cloud.Stopping
	case ec2types.InstanceStateNameShuttingDown:
		return cloud.Terminating
	}
	return cloud.Terminated
}

// describeBatch serves a batch of Get.
func (s *instances) describeBatch(ctx context.Context, ids []string) map[string]outcome[cloud.Instance] {
	instances, err := s.describe(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	return settle(ctx, ids, err, s.describeBatch, func(out map[string]outcome[cloud.Instance]) {
		for _, m := range instances {
			if m.State != cloud.Terminated {
				out[m.ID] = outcome[cloud.Instance]{value: m}
			}
		}
	})
}

// terminateBatch serves a batch of Terminate. EC2 refuses a whole call for one instance with termination protection:
// then each ID gets its own call.
func (s *instances) terminateBatch(ctx context.Context, ids []string) map[string]outcome[struct{}] {
	answer, err := s.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if c := code(err); len(ids) > 1 && c != "" && !throttleCodes[c] && !serverCodes[c] {
		return singly(ctx, ids, s.terminateBatch)
	}
	err = wrap("terminate instances", "ec2:TerminateInstances", err)
	return settle(ctx, ids, err, s.terminateBatch, func(out map[string]outcome[struct{}]) {
		for _, i := range answer.TerminatingInstances {
			// An instance that had already ended is gone.
			if i.CurrentState == nil || i.CurrentState.Name != ec2types.InstanceStateNameTerminated {
				out[awssdk.ToString(i.InstanceId)] = outcome[struct{}]{}
			}
		}
	})
}

// settle returns an outcome for every ID of a batch. EC2 fails a whole call for one unknown ID: then each ID gets its
// own call. IDs that an answer omits are not found.
func settle[T any](ctx context.Context, ids []string, err error,
	again func(context.Context, []string) map[string]outcome[T],
	found func(map[string]outcome[T]),
) map[string]outcome[T] {
	unknown := isUnknownInstance(code(err))
	if unknown && len(ids) > 1 {
		return singly(ctx, ids, again)
	}
	out := make(map[string]outcome[T], len(ids))
	for _, id := range ids {
		out[id] = outcome[T]{err: cloud.ErrNotFound}
		if err != nil && !unknown {
			out[id] = outcome[T]{err: err}
		}
	}
	if err == nil {
		found(out)
	}
	return out
}

// singly makes a call of its own for every ID of a batch.
func singly[T any](ctx context.Context, ids []string,
	call func(context.Context, []string) map[string]outcome[T],
) map[string]outcome[T] {
	out := make(map[string]outcome[T], len(ids))
	for _, id := range ids {
		out[id] = call(ctx, []string{id})[id]
	}
	return out
}

func isUnknownInstance(code string) bool {
	return code == codeInstanceMissing || code == "InvalidInstanceID.Malformed" || code == "InvalidInstanceId.NotFound"
}
