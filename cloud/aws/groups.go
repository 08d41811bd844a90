package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// groupTag is the tag with which EC2 Auto Scaling marks the instances of a group.
const groupTag = "aws:autoscaling:groupName"

// groups sizes Auto Scaling groups for NodeGroups.
type groups struct {
	*account
	subnets   *subnetTracker
	instances *instances

	mu     sync.Mutex
	byName map[string]*group
}

// group is the work in progress in one Auto Scaling group. Its fields belong to the holder of busy.
type group struct {
	busy chan struct{} // holds an item while the group is being changed
	// ordered are the launches that wait for an instance, by token, with the start of their wait.
	ordered map[string]time.Time
	// taken are the instances that were given to a claim and whose tags EC2 may not show yet, with their launches'
	// tokens.
	taken map[string]string
}

func newGroups(a *account, subnets *subnetTracker, instances *instances) *groups {
	return &groups{account: a, subnets: subnets, instances: instances, byName: map[string]*group{}}
}

// enter waits for exclusive access to the group of a name. The caller must call leave.
func (s *groups) enter(ctx context.Context, name string) (*group, error) {
	s.mu.Lock()
	g := s.byName[name]
	if g == nil {
		g = &group{busy: make(chan struct{}, 1), ordered: map[string]time.Time{}, taken: map[string]string{}}
		s.byName[name] = g
	}
	s.mu.Unlock()
	select {
	case g.busy <- struct{}{}:
		return g, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *group) leave() { <-g.busy }

// errNoGroup means that no Auto Scaling group has the name.
var errNoGroup = errors.New("there is no such Auto Scaling group")

// describe reads a group from AWS.
func (s *groups) describe(ctx context.Context, name string) (*astypes.AutoScalingGroup, error) {
	out, err := s.autoscaling.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return nil, wrap("describe Auto Scaling group "+name, "autoscaling:DescribeAutoScalingGroups", err)
	}
	for i := range out.AutoScalingGroups {
		if g := &out.AutoScalingGroups[i]; awssdk.ToString(g.AutoScalingGroupName) == name {
			return g, nil
		}
	}
	return nil, fmt.Errorf("describe Auto Scaling group %s: %w", name, errNoGroup)
}

// groupFault is a problem with a group that the user must fix: a condition that is False.
type groupFault struct{ condition, reason, message string }

func (f *groupFault) Error() string { return f.message }

func fault(condition, reason, format string, args ...any) *groupFault {
	return &groupFault{condition, reason, fmt.Sprintf(format, args...)}
}

// resolve fills in what AWS reports about the group of a class that represents a NodeGroup. A problem that the user
// must fix becomes a condition, as with Resolve; what was known of the group before stays.
func (s *groups) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	n := NodeGroupOf(class)
	err := s.read(ctx, &n.Spec, &n.Status)
	broken, known := errors.AsType[*groupFault](err)
	switch {
	case known:
	case errors.Is(err, cloud.ErrUnauthorized):
		broken = fault(v1alpha1.ConditionGroupFound, "Unauthorized", "%v", err)
	case err != nil:
		return fmt.Errorf("resolve %s: %w", title(class), err)
	}
	s.setConditions(n, broken, class.Generation)
	setNodeGroup(class, n)
	return nil
}

// setConditions sets the conditions of a NodeGroup. A fault makes its own condition and Ready False.
func (s *groups) setConditions(n *v1alpha1.NodeGroup, broken *groupFault, generation int64) {
	for _, kind := range []string{v1alpha1.ConditionGroupFound, v1alpha1.ConditionTemplateFound, status.ConditionReady} {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(s.now()),
		}
		if broken != nil && (kind == broken.condition || kind == status.ConditionReady) {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, broken.reason, broken.message
		}
		meta.SetStatusCondition(&n.Status.Conditions, c)
	}
}

// read reads from AWS the group that a spec names, and what the group launches.
func (s *groups) read(ctx context.Context, spec *v1alpha1.NodeGroupSpec, into *v1alpha1.NodeGroupStatus) error {
	const found, field = v1alpha1.ConditionGroupFound, "spec.autoScalingGroupName"
	g, err := s.describe(ctx, spec.AutoScalingGroupName)
	switch {
	case errors.Is(err, errNoGroup):
		return fault(found, "GroupNotFound",
			"%s: region %s has no Auto Scaling group %q; create it, or delete this NodeGroup", field,
			s.o.AWS.Region, spec.AutoScalingGroupName)
	case err != nil:
		return err
	case awssdk.ToString(g.Status) != "":
		return fault(found, "GroupDeleting", "Auto Scaling group %s is being deleted: %s; delete this NodeGroup",
			spec.AutoScalingGroupName, *g.Status)
	}
	into.MinSize, into.MaxSize = awssdk.ToInt32(g.MinSize), awssdk.ToInt32(g.MaxSize)
	into.DesiredSize, into.Instances = awssdk.ToInt32(g.DesiredCapacity), int32(len(g.Instances))
	if err := readTemplateTags(g.Tags, into); err != nil {
		return err
	}
	shape, err := s.shapeOf(ctx, g)
	if err != nil {
		return err
	}
	into.InstanceTypes, into.CapacityTypes, into.ImageID = shape.types, shape.capacityTypes, shape.image
	into.Subnets, err = s.subnetsOf(ctx, g)
	if err == nil && len(into.Subnets) == 0 {
		return fault(found, "SubnetsNotFound", "Auto Scaling group %s names no subnet that exists; set its VPCZoneIdentifier",
			spec.AutoScalingGroupName)
	}
	return err
}

// subnetsOf returns the subnets of a group.
func (s *groups) subnetsOf(ctx context.Context, g *astypes.AutoScalingGroup) ([]v1alpha1.NodeGroupSubnet, error) {
	ids := strings.FieldsFunc(awssdk.ToString(g.VPCZoneIdentifier), func(r rune) bool { return r == ',' || r == ' ' })
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.subnets.describe(ctx, []ec2types.Filter{filter("subnet-id", ids...)})
	if err != nil {
		return nil, err
	}
	var out []v1alpha1.NodeGroupSubnet
	for _, f := range found {
		out = append(out, v1alpha1.NodeGroupSubnet{
			ID: awssdk.ToString(f.SubnetId), Zone: awssdk.ToString(f.AvailabilityZone),
			ZoneID: awssdk.ToString(f.AvailabilityZoneId),
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.NodeGroupSubnet) int { return strings.Compare(a.Zone+a.ID, b.Zone+b.ID) })
	return out, nil
}

// DiscoverGroups returns the names of the Auto Scaling groups that have a tag with each of the keys, sorted.
func (p *Provider) DiscoverGroups(ctx context.Context, tags []string) ([]string, error) {
	in := &autoscaling.DescribeAutoScalingGroupsInput{}
	for _, key := range tags {
		in.Filters = append(in.Filters, astypes.Filter{Name: awssdk.String("tag-key"), Values: []string{key}})
	}
	var out []string
	err := eachPage(ctx, autoscaling.NewDescribeAutoScalingGroupsPaginator(p.autoscaling, in),
		"describe Auto Scaling groups with tags "+strings.Join(tags, ", "), "autoscaling:DescribeAutoScalingGroups",
		func(page *autoscaling.DescribeAutoScalingGroupsOutput) {
			for _, g := range page.AutoScalingGroups {
				if g.Status == nil { // else it is being deleted
					out = append(out, awssdk.ToString(g.AutoScalingGroupName))
				}
			}
		})
	slices.Sort(out)
	return out, err
}

// UnclaimedInstances returns the instances, by ID, of a NodeGroup's Auto Scaling group that have no NodeClaim.
func (p *Provider) UnclaimedInstances(ctx context.Context, ref cloud.ClassRef) ([]cloud.Instance, error) {
	class, err := p.readyClass(ref)
	if err != nil {
		return nil, err
	}
	name := NodeGroupOf(class).Spec.AutoScalingGroupName
	g, err := p.groups.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	found, err := p.groups.describe(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.groups.free(ctx, g, found)
}

// free returns the instances of a group that are pending or in service and have no claim.
func (s *groups) free(ctx context.Context, g *group, of *astypes.AutoScalingGroup) ([]cloud.Instance, error) {
	ids := livingMembers(of)
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.instances.describeMembers(ctx, awssdk.ToString(of.AutoScalingGroupName))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(i cloud.Instance) bool {
		if i.Claim != "" {
			delete(g.taken, i.ID) // EC2 shows its tags
		}
		return !slices.Contains(ids, i.ID) || i.Claim != "" || g.taken[i.ID] != "" ||
			i.State != cloud.Pending && i.State != cloud.Running
	}), nil
}

// livingMembers returns the IDs of the instances that count towards a group's desired capacity (EC2 Auto Scaling user
// guide, "Amazon EC2 Auto Scaling instance lifecycle").
func livingMembers(g *astypes.AutoScalingGroup) []string {
	var out []string
	for _, m := range g.Instances {
		if state := string(m.LifecycleState); strings.HasPrefix(state, "Pending") || state == "InService" {
			out = append(out, awssdk.ToString(m.InstanceId))
		}
	}
	return out
}

// sleep waits for d, or until ctx is done.
func (s *groups) sleep(ctx context.Context, d time.Duration) error {
	return clock.Sleep(ctx, s.o.Clock, d)
}
