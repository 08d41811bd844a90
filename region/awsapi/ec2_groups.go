package awsapi

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

var groups = kind[types.SecurityGroup]{
	key: "GroupId", usual: 1000,
	filters: "owner-id group-id group-name description vpc-id tag-key=Tags.Key tag-value=Tags.Value",
	ids: []naming{
		{"GroupIds", "GroupId", "InvalidGroup.NotFound", "The security group '%s' does not exist"},
		{"GroupNames", "GroupName", "InvalidGroup.NotFound", "The security group '%s' does not exist"},
	},
}

func describeSecurityGroups(
	c *call, in *ec2.DescribeSecurityGroupsInput,
) (*ec2.DescribeSecurityGroupsOutput, error) {
	var all []types.SecurityGroup
	for _, g := range c.region.SecurityGroups() {
		all = append(all, types.SecurityGroup{
			OwnerId: new(region.AccountID), GroupId: &g.ID, GroupName: &g.Name, Description: &g.Description, VpcId: &g.VPC,
			Tags: tagsOf(g.Tags), IpPermissions: permissionsOf(g.Ingress),
			IpPermissionsEgress: permissionsOf([]region.SecurityGroupRule{{
				Protocol: "-1", From: -1, To: -1, Peer: "0.0.0.0/0",
			}}),
		})
	}
	found, next, err := groups.answer(in, all)
	return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: found, NextToken: next}, err
}

func createSecurityGroup(
	c *call, in *ec2.CreateSecurityGroupInput,
) (*ec2.CreateSecurityGroupOutput, error) {
	if vpc := aws.ToString(in.VpcId); vpc != "" && vpc != region.VPCID {
		return nil, failure(400, "InvalidVpcID.NotFound", "The vpc ID '"+vpc+"' does not exist")
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	g, err := c.region.CreateSecurityGroup(region.SecurityGroupRequest{
		Name: aws.ToString(in.GroupName), Description: aws.ToString(in.Description),
		Tags: tagsFor(types.ResourceTypeSecurityGroup, in.TagSpecifications),
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateSecurityGroupOutput{GroupId: &g.ID, Tags: tagsOf(g.Tags)}, nil
}

func deleteSecurityGroup(
	c *call, in *ec2.DeleteSecurityGroupInput,
) (*ec2.DeleteSecurityGroupOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	id := c.groupID(in.GroupId, in.GroupName)
	return &ec2.DeleteSecurityGroupOutput{GroupId: &id, Return: new(true)}, c.region.DeleteSecurityGroup(id)
}

// groupID returns the ID of a security group that a call identifies by ID or name.
func (c *call) groupID(id, name *string) string {
	for _, g := range c.region.SecurityGroups() {
		if id == nil && name != nil && g.Name == *name {
			return g.ID
		}
	}
	return cmp.Or(aws.ToString(id), aws.ToString(name))
}

// permissionsOf merges rules with the same protocol and ports into one permission.
func permissionsOf(rules []region.SecurityGroupRule) []types.IpPermission {
	out := []types.IpPermission{}
	for _, r := range rules {
		x := types.IpPermission{
			IpProtocol: &r.Protocol, UserIdGroupPairs: []types.UserIdGroupPair{}, IpRanges: []types.IpRange{},
			Ipv6Ranges: []types.Ipv6Range{},
		}
		if r.Protocol != "-1" {
			x.FromPort, x.ToPort = new(int32(r.From)), new(int32(r.To))
		}
		i := slices.IndexFunc(out, func(o types.IpPermission) bool {
			return *o.IpProtocol == r.Protocol && aws.ToInt32(o.FromPort) == aws.ToInt32(x.FromPort) &&
				aws.ToInt32(o.ToPort) == aws.ToInt32(x.ToPort)
		})
		if i < 0 {
			i = len(out)
			out = append(out, x)
		}
		p, description := &out[i], optional(r.Description)
		switch group, v4, v6 := peer(r); {
		case group != nil:
			p.UserIdGroupPairs = append(p.UserIdGroupPairs,
				types.UserIdGroupPair{UserId: new(region.AccountID), GroupId: group, Description: description})
		case v4 != nil:
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: v4, Description: description})
		default:
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: v6, Description: description})
		}
	}
	return out
}

// peer returns the peer of a rule as a group, an IPv4 block or an IPv6 block; the other two are nil.
func peer(r region.SecurityGroupRule) (group, v4, v6 *string) {
	p, err := netip.ParsePrefix(r.Peer)
	switch {
	case err != nil:
		return &r.Peer, nil, nil
	case p.Addr().Is4():
		return nil, &r.Peer, nil
	}
	return nil, nil, &r.Peer
}

// rulesOf splits permissions into the region's rules, one for each peer.
func rulesOf(permissions []types.IpPermission) ([]region.SecurityGroupRule, error) {
	var out []region.SecurityGroupRule
	for _, p := range permissions {
		rule := region.SecurityGroupRule{Protocol: aws.ToString(p.IpProtocol), From: -1, To: -1}
		if rule.Protocol != "-1" && p.FromPort != nil {
			rule.From = int(*p.FromPort)
		}
		if rule.Protocol != "-1" && p.ToPort != nil {
			rule.To = int(*p.ToPort)
		}
		add := func(peer, description *string) {
			rule.Peer, rule.Description = aws.ToString(peer), aws.ToString(description)
			out = append(out, rule)
		}
		for _, x := range p.IpRanges {
			add(x.CidrIp, x.Description)
		}
		for _, x := range p.Ipv6Ranges {
			add(x.CidrIpv6, x.Description)
		}
		for _, x := range p.UserIdGroupPairs {
			add(x.GroupId, x.Description)
		}
	}
	if len(out) == 0 {
		return nil, missingParameter("IpPermissions")
	}
	return out, nil
}

// rulesOfGroup returns the security group and the rules that a call changes. Parameters of a single rule outside
// IpPermissions are the older form.
func (c *call) rulesOfGroup(
	in ec2.AuthorizeSecurityGroupIngressInput,
) (group string, rules []region.SecurityGroupRule, err error) {
	permissions := in.IpPermissions
	if len(permissions) == 0 && in.IpProtocol != nil {
		permissions = []types.IpPermission{{
			IpProtocol: in.IpProtocol, FromPort: in.FromPort, ToPort: in.ToPort,
			IpRanges: []types.IpRange{{CidrIp: in.CidrIp}},
		}}
	}
	if rules, err = rulesOf(permissions); err == nil {
		err = dryRun(in.DryRun)
	}
	return c.groupID(in.GroupId, in.GroupName), rules, err
}

// authorizeSecurityGroupIngress adds rules, which the region stores but does not enforce.
func authorizeSecurityGroupIngress(
	c *call, in *ec2.AuthorizeSecurityGroupIngressInput,
) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
	group, rules, err := c.rulesOfGroup(*in)
	if err != nil {
		return nil, err
	}
	added, err := c.region.AuthorizeSecurityGroupIngress(group, rules)
	out := &ec2.AuthorizeSecurityGroupIngressOutput{Return: new(true)}
	for _, r := range added {
		x := types.SecurityGroupRule{
			SecurityGroupRuleId: &r.ID, GroupId: &r.GroupID, GroupOwnerId: new(region.AccountID), IsEgress: new(false),
			IpProtocol: &r.Protocol, FromPort: new(int32(r.From)), ToPort: new(int32(r.To)),
			Description: optional(r.Description),
		}
		var referenced *string
		if referenced, x.CidrIpv4, x.CidrIpv6 = peer(r); referenced != nil {
			x.ReferencedGroupInfo = &types.ReferencedSecurityGroup{UserId: new(region.AccountID), GroupId: referenced}
		}
		out.SecurityGroupRules = append(out.SecurityGroupRules, x)
	}
	return out, err
}

func revokeSecurityGroupIngress(
	c *call, in *ec2.RevokeSecurityGroupIngressInput,
) (*ec2.RevokeSecurityGroupIngressOutput, error) {
	group, rules, err := c.rulesOfGroup(copyOf[ec2.AuthorizeSecurityGroupIngressInput](in))
	if err != nil {
		return nil, err
	}
	return &ec2.RevokeSecurityGroupIngressOutput{Return: new(true)}, c.region.RevokeSecurityGroupIngress(group, rules)
}
