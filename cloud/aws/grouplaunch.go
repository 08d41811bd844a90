package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// How often a launch looks for the instance that it has ordered, and for how long.
const (
	firstGroupPoll = 250 * time.Millisecond
	maxGroupPoll   = 5 * time.Second
	groupPatience  = 4 * time.Minute
)

// launchInGroup gives a claim an instance of its group: one that has no claim, else a new one.
//
// A group has a size but no tokens. A launch raises the size only if fewer instances are on order than launches are
// waiting. So a process that ends between raising the size and tagging the instance raises it only once: the next
// process finds the instance, or finds it on order.
func (s *groups) launchInGroup(ctx context.Context, class *ec2v1.EC2NodeClass, catalog *classCatalog,
	req *cloud.LaunchRequest,
) (cloud.LaunchResult, error) {
	l := &groupLaunch{groups: s, class: class, catalog: catalog, req: req}
	l.name = NodeGroupOf(class).Spec.AutoScalingGroupName
	if instance, err := l.earlier(ctx); err != nil || instance.ID != "" {
		return cloud.LaunchResult{Instance: instance}, err
	}
	instance, err := l.wait(ctx)
	if err != nil {
		l.stopWaiting(ctx)
	}
	return cloud.LaunchResult{Instance: instance, Exhausted: l.exhausted, OfClass: true}, err
}

// wait repeats step until it gives an instance.
func (l *groupLaunch) wait(ctx context.Context) (cloud.Instance, error) {
	pause, begun := firstGroupPoll, l.now()
	for {
		instance, err := l.step(ctx)
		if err != nil || instance.ID != "" {
			return instance, err
		}
		if l.now().Sub(begun) > groupPatience {
			return cloud.Instance{}, l.abandon(ctx, fmt.Errorf("no instance came within %s; see the activities of Auto "+
				"Scaling group %s: %w", groupPatience, l.name, cloud.ErrRefused))
		}
		if err := l.sleep(ctx, pause); err != nil {
			return cloud.Instance{}, err
		}
		pause = min(2*pause, maxGroupPoll)
	}
}

// groupLaunch is the state of one launch in a group.
type groupLaunch struct {
	*groups
	class     *ec2v1.EC2NodeClass
	catalog   *classCatalog
	req       *cloud.LaunchRequest
	name      string
	exhausted []model.OfferingKey // for this class only: Auto Scaling does not say which of them it tried
}

// earlier returns the instance that an earlier process tagged with the token of this launch.
func (l *groupLaunch) earlier(ctx context.Context) (cloud.Instance, error) {
	found, err := l.instances.byToken(ctx, l.req.Token)
	for _, i := range found {
		if i.State == cloud.Pending || i.State == cloud.Running {
			return l.catalog.describe(i), nil
		}
	}
	return cloud.Instance{}, err
}

// step tags an instance that has no claim. If there is none, it ensures that one is ordered; the result then has no
// ID.
func (l *groupLaunch) step(ctx context.Context) (cloud.Instance, error) {
	g, err := l.enter(ctx, l.name)
	if err != nil {
		return cloud.Instance{}, err
	}
	defer g.leave()
	of, err := l.describe(ctx, l.name)
	if err != nil {
		return cloud.Instance{}, err
	}
	free, err := l.free(ctx, g, of)
	if err != nil {
		return cloud.Instance{}, err
	}
	if id := l.req.Instance; id != "" {
		at := slices.IndexFunc(free, func(i cloud.Instance) bool { return i.ID == id })
		if at < 0 {
			return cloud.Instance{}, fmt.Errorf("instance %s of Auto Scaling group %s has ended or has another NodeClaim: %w",
				id, l.name, cloud.ErrNoCapacity)
		}
		return l.take(ctx, g, free[at])
	}
	if at := l.best(free); at >= 0 {
		return l.take(ctx, g, free[at])
	}
	if since, waits := g.ordered[l.req.Token]; waits {
		if failed, err := l.failure(ctx, since); failed != nil || err != nil {
			if err == nil {
				err = l.withdraw(ctx, g, of, failed)
			}
			return cloud.Instance{}, err
		}
	}
	return cloud.Instance{}, l.order(ctx, g, of)
}

// best returns the index of the instance that best fits the claim's requirements; -1 if there is none.
func (l *groupLaunch) best(free []cloud.Instance) int {
	at := slices.IndexFunc(free, func(i cloud.Instance) bool {
		where := model.NewRequirements(model.OneOf(model.LabelZone, i.Zone), model.OneOf(model.LabelInstanceType, i.Type))
		return where.Conflict(l.req.Requirements, nil) == ""
	})
	if at < 0 && len(free) > 0 {
		return 0 // Auto Scaling chose zone and type: the claim takes any instance
	}
	return at
}

// take tags an instance as the claim's.
func (l *groupLaunch) take(ctx context.Context, g *group, i cloud.Instance) (cloud.Instance, error) {
	tags := map[string]string{
		ec2v1.NodeClaimTagKey: l.req.Claim, tagToken: l.req.Token, ec2v1.EKSClusterNameTagKey: l.o.ClusterName,
		ec2v1.NodeClassTagKey: cloudName(l.class),
	}
	if l.req.Pool != "" {
		tags[ec2v1.NodePoolTagKey] = l.req.Pool
	}
	_, err := l.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{i.ID}, Tags: tagList(tags)})
	if err != nil {
		return cloud.Instance{}, wrap("mark instance "+i.ID+" of Auto Scaling group "+l.name, "ec2:CreateTags", err)
	}
	g.taken[i.ID] = l.req.Token
	delete(g.ordered, l.req.Token)
	l.instances.noteGroup(i.ID, l.name)
	return l.catalog.describe(i), nil
}

// ReleaseInstance removes the tags that identify its NodeClaim from an instance of an Auto Scaling group.
func (p *Provider) ReleaseInstance(ctx context.Context, id string) error {
	var tags []ec2types.Tag
	for _, key := range []string{ec2v1.NodeClaimTagKey, tagToken, ec2v1.NodePoolTagKey, ec2v1.NodeClassTagKey} {
		tags = append(tags, ec2types.Tag{Key: awssdk.String(key)})
	}
	_, err := p.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: tags})
	if err != nil && !isUnknownInstance(code(err)) {
		return wrap("take the tags off instance "+id, "ec2:DeleteTags", err)
	}
	return p.groups.forgetClaim(ctx, id)
}

// forgetClaim forgets that an instance was given to a claim.
func (s *groups) forgetClaim(ctx context.Context, id string) error {
	name, err := s.instances.groupOf(ctx, id)
	if name == "" || err != nil {
		return err
	}
	g, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer g.leave()
	delete(g.taken, id)
	return nil
}

// stopWaiting forgets that a launch waits which ends without an instance. What it ordered stays on order, for the next
// launch in the group.
func (l *groupLaunch) stopWaiting(ctx context.Context) {
	g, err := l.enter(context.WithoutCancel(ctx), l.name)
	if err != nil {
		return
	}
	defer g.leave()
	delete(g.ordered, l.req.Token)
}

// order raises the size of the group unless enough instances are on order.
func (l *groupLaunch) order(ctx context.Context, g *group, of *astypes.AutoScalingGroup) error {
	desired := awssdk.ToInt32(of.DesiredCapacity)
	coming := int(desired) - len(livingMembers(of))
	if _, waits := g.ordered[l.req.Token]; !waits {
		g.ordered[l.req.Token] = l.now()
	}
	if coming >= len(g.ordered) {
		return nil
	}
	if most := awssdk.ToInt32(of.MaxSize); desired >= most {
		delete(g.ordered, l.req.Token)
		return fmt.Errorf("the size of Auto Scaling group %s is %d, its maximum; raise the maximum: %w", l.name, most,
			cloud.ErrRefused)
	}
	err := l.resize(ctx, desired+1)
	if err != nil {
		delete(g.ordered, l.req.Token)
	}
	return err
}

func (l *groupLaunch) resize(ctx context.Context, desired int32) error {
	_, err := l.autoscaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &l.name, DesiredCapacity: &desired, HonorCooldown: awssdk.Bool(false),
	})
	return wrapLaunch(fmt.Sprintf("set Auto Scaling group %s to %d instances", l.name, desired),
		"autoscaling:SetDesiredCapacity", err)
}

// failure returns an activity that has failed since the launch was ordered; nil if none has.
func (l *groupLaunch) failure(ctx context.Context, since time.Time) (*astypes.Activity, error) {
	out, err := l.autoscaling.DescribeScalingActivities(ctx,
		&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &l.name, MaxRecords: awssdk.Int32(20)})
	if err != nil {
		return nil, wrap("describe activities of Auto Scaling group "+l.name, "autoscaling:DescribeScalingActivities", err)
	}
	for i := range out.Activities {
		a := &out.Activities[i]
		later := !awssdk.ToTime(a.StartTime).Before(since.Truncate(time.Second)) // AWS reports whole seconds
		if a.StatusCode == astypes.ScalingActivityStatusCodeFailed && later &&
			strings.HasPrefix(awssdk.ToString(a.Description), "Launching") {
			return a, nil
		}
	}
	return nil, nil
}

// withdraw takes back the order of a launch whose activity failed, and returns the reason.
func (l *groupLaunch) withdraw(ctx context.Context, g *group, of *astypes.AutoScalingGroup,
	failed *astypes.Activity,
) error {
	if err := l.takeBack(ctx, g, of); err != nil {
		return err
	}
	message := awssdk.ToString(failed.StatusMessage)
	if !lacksCapacity(message) {
		return fmt.Errorf("launch in Auto Scaling group %s: %s: %w", l.name, message, cloud.ErrRefused)
	}
	for i := range l.catalog.types {
		for _, o := range l.catalog.types[i].Offerings {
			l.exhausted = append(l.exhausted, model.OfferingKey{
				Type: l.catalog.types[i].Name, Zone: o.Zone, CapacityType: o.CapacityType,
			})
		}
	}
	return fmt.Errorf("launch in Auto Scaling group %s: %s: %w", l.name, message, cloud.ErrNoCapacity)
}

// lacksCapacity reports whether the message of a failed activity means that EC2 has no capacity now (EC2 Auto Scaling
// user guide, "Troubleshoot instance launch failures").
func lacksCapacity(message string) bool {
	for _, words := range []string{
		"sufficient", "InsufficientInstanceCapacity", "no Spot capacity", "UnfulfillableCapacity",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// abandon takes back the order of a launch that got no instance.
func (l *groupLaunch) abandon(ctx context.Context, why error) error {
	g, err := l.enter(ctx, l.name)
	if err != nil {
		return err
	}
	defer g.leave()
	of, err := l.describe(ctx, l.name)
	if err != nil {
		return errors.Join(why, err)
	}
	return errors.Join(why, l.takeBack(ctx, g, of))
}

// takeBack lowers the size of the group again, unless another launch waits for the instance.
func (l *groupLaunch) takeBack(ctx context.Context, g *group, of *astypes.AutoScalingGroup) error {
	delete(g.ordered, l.req.Token)
	desired := awssdk.ToInt32(of.DesiredCapacity)
	coming := int(desired) - len(livingMembers(of))
	if coming <= len(g.ordered) || desired <= awssdk.ToInt32(of.MinSize) {
		return nil
	}
	return l.resize(ctx, desired-1)
}

// terminate ends an instance of a group, and reports whether id is one. This reduces the group's size, unless it is
// at its minimum: then Auto Scaling replaces the instance. Once the instance is ending, EC2 reports when it is gone.
func (s *groups) terminate(ctx context.Context, id string) (bool, error) {
	name, err := s.instances.groupOf(ctx, id)
	if name == "" || err != nil {
		return false, err
	}
	g, err := s.enter(ctx, name)
	if err != nil {
		return true, err
	}
	defer g.leave()
	for _, smaller := range []bool{true, false} {
		_, err = s.autoscaling.TerminateInstanceInAutoScalingGroup(ctx,
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{
				InstanceId: &id, ShouldDecrementDesiredCapacity: &smaller,
			})
		if err == nil || !strings.Contains(err.Error(), "min size") {
			break
		}
	}
	switch {
	case err == nil:
		delete(g.taken, id)
		return true, nil
	case code(err) == "ScalingActivityInProgress": // it is already ending
		_, err = s.instances.get.do(ctx, id)
		return true, err
	case strings.Contains(err.Error(), "not found"): // it has left the group
		return false, nil
	}
	return true, wrap("terminate instance "+id+" of Auto Scaling group "+name,
		"autoscaling:TerminateInstanceInAutoScalingGroup", err)
}
