package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// A tag and its value mark a security group that was made for a load balancer, as in the AWS Load Balancer
// Controller.
const (
	tagResource  = "ingress.k8s.aws/resource"
	managedGroup = "ManagedLBSecurityGroup"
)

// managesGroup reports whether the stack's load balancer has its own security group, which has the load balancer's
// name.
func (s *stack) managesGroup() bool { return s.kind == "application" && len(s.groups) == 0 }

// listGroups returns the security groups that were made for the cluster's load balancers, by name.
func (s *syncer) listGroups(ctx context.Context) (map[string]ec2types.SecurityGroup, error) {
	out := map[string]ec2types.SecurityGroup{}
	pages := ec2.NewDescribeSecurityGroupsPaginator(s.ec2, &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:" + tagCluster), Values: []string{s.cluster}},
		{Name: aws.String("tag:" + tagResource), Values: []string{managedGroup}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list security groups of load balancers: %w", err)
		}
		for _, g := range page.SecurityGroups {
			out[*g.GroupName] = g
		}
	}
	return out, nil
}

// securityGroup returns the ID of a stack's security group, and creates it if there is none.
func (s *syncer) securityGroup(ctx context.Context, have *made, want *stack, vpc *string) (string, error) {
	if g, ok := have.securityGroups[want.name]; ok {
		return *g.GroupId, nil
	}
	tags := []ec2types.Tag{{Key: aws.String(tagResource), Value: aws.String(managedGroup)}}
	for _, t := range s.tags(want) {
		tags = append(tags, ec2types.Tag{Key: t.Key, Value: t.Value})
	}
	created, err := s.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: &want.name, VpcId: vpc, Description: aws.String("[k8s] Managed SecurityGroup for LoadBalancer"),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: tags}},
	})
	if err != nil {
		return "", fmt.Errorf("create the security group of load balancer %s: %w", want.name, err)
	}
	have.securityGroups[want.name] = ec2types.SecurityGroup{GroupId: created.GroupId, GroupName: &want.name}
	return *created.GroupId, nil
}

// syncPorts makes the security group of a stack allow the ports of its listeners from anywhere, and nothing else.
func (s *syncer) syncPorts(ctx context.Context, have *made, want *stack) error {
	g, ok := have.securityGroups[want.name]
	if !ok {
		return nil
	}
	allowed := map[int32]bool{}
	var surplus, missing []ec2types.IpPermission
	for _, p := range g.IpPermissions {
		port := aws.ToInt32(p.FromPort)
		if want.listeners[port] == nil || !sameRanges(p, fromAnywhere(port)) {
			surplus = append(surplus, p)
			continue
		}
		allowed[port] = true
	}
	for _, port := range slices.Sorted(maps.Keys(want.listeners)) {
		if !allowed[port] {
			missing = append(missing, fromAnywhere(port))
		}
	}
	if len(surplus) > 0 {
		if _, err := s.ec2.RevokeSecurityGroupIngress(ctx,
			&ec2.RevokeSecurityGroupIngressInput{GroupId: g.GroupId, IpPermissions: surplus}); err != nil {
			return fmt.Errorf("close ports of security group %s: %w", want.name, err)
		}
	}
	if len(missing) > 0 {
		if _, err := s.ec2.AuthorizeSecurityGroupIngress(ctx,
			&ec2.AuthorizeSecurityGroupIngressInput{GroupId: g.GroupId, IpPermissions: missing}); err != nil {
			return fmt.Errorf("open ports of security group %s: %w", want.name, err)
		}
	}
	return nil
}

func fromAnywhere(port int32) ec2types.IpPermission {
	return ec2types.IpPermission{
		IpProtocol: aws.String("tcp"), FromPort: &port, ToPort: &port,
		IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}},
	}
}

// sameRanges reports whether two permissions allow the same traffic.
func sameRanges(a, b ec2types.IpPermission) bool {
	return aws.ToString(a.IpProtocol) == aws.ToString(b.IpProtocol) && aws.ToInt32(a.ToPort) == aws.ToInt32(b.ToPort) &&
		len(a.Ipv6Ranges)+len(a.UserIdGroupPairs)+len(a.PrefixListIds) == 0 &&
		slices.EqualFunc(a.IpRanges, b.IpRanges, func(x, y ec2types.IpRange) bool {
			return aws.ToString(x.CidrIp) == aws.ToString(y.CidrIp)
		})
}

// pruneGroups deletes the security groups that no stack wants. A group that is still in use, such as by a rule of
// another group, stays until a later reconciliation.
func (s *syncer) pruneGroups(ctx context.Context, have *made, stacks []*stack) error {
	var failed []error
	for name, g := range have.securityGroups {
		if slices.ContainsFunc(stacks, func(k *stack) bool { return k.name == name && k.managesGroup() }) {
			continue
		}
		_, err := s.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId})
		if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "DependencyViolation" {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
