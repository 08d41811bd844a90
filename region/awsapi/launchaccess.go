package awsapi

import (
	"cmp"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/nodeless/nodeless/region"
)

// accessRule returns the accesses that calls of one action need.
type accessRule func(c authorizer, in any) []access

// rule turns a function of an action's own input into an accessRule.
func rule[In any](f func(authorizer, *In) []access) accessRule {
	return func(c authorizer, in any) []access { return f(c, in.(*In)) }
}

// accessRules are the rules of actions that create something or need additional permissions.
var accessRules = map[string]map[string]accessRule{
	serviceEC2: {
		"CreateFleet":               rule(fleetAccess),
		"RunInstances":              rule(runAccess),
		"CreateCapacityReservation": rule(reservationAccess),
		"CreateLaunchTemplate":      rule(templateAccess),
		"CreateNetworkInterface":    rule(interfaceAccess),
		"CreatePlacementGroup":      rule(placementGroupAccess),
		"DeletePlacementGroup":      rule(placementGroupRemovalAccess),
		"CreateSecurityGroup":       rule(groupAccess),
		"CreateSubnet":              rule(subnetAccess),
	},
	serviceIAM: {
		"CreateInstanceProfile":         rule(profileAccess),
		"AddRoleToInstanceProfile":      rule(profileRoleAccess),
		"RemoveRoleFromInstanceProfile": rule(profileRemovalAccess),
	},
}

// create returns the accesses for creating an EC2 resource with tags: the action itself and, with tags, the tagging
// on creation (EC2 user guide, "Grant permission to tag Amazon EC2 resources during creation").
func (c authorizer) create(action, kind string, tags map[string]string) []access {
	arn := c.arn("ec2", kind+"/*")
	out := []access{{action: "ec2:" + action, resource: arn, given: tags}}
	if len(tags) > 0 {
		out = append(out, access{
			action: "ec2:CreateTags", resource: arn, given: tags, keys: map[string]string{"ec2:CreateAction": action},
		})
	}
	return out
}

// uses returns the access to an existing EC2 resource.
func (c authorizer) uses(action, id string) access {
	arn, tags := ec2Resource(c, id, nil)
	return access{action: "ec2:" + action, resource: arn, tags: tags}
}

// fleetAccess returns what CreateFleet itself needs: access to the fleet, to what it tags, to its templates and to
// what its overrides name (Service Authorization Reference, CreateFleet). fleetLaunchAccess covers the launches:
// without that access, EC2 creates the fleet and reports errors in it.
func fleetAccess(c authorizer, in *ec2.CreateFleetInput) []access {
	out := c.create("CreateFleet", "fleet", tagsFor(types.ResourceTypeFleet, in.TagSpecifications))
	for _, s := range in.TagSpecifications {
		if s.ResourceType != types.ResourceTypeFleet {
			out = append(out, c.create("CreateFleet", string(s.ResourceType), tagMap(s.Tags))...)
		}
	}
	used := map[string]bool{}
	for _, config := range in.LaunchTemplateConfigs {
		if s := config.LaunchTemplateSpecification; s != nil {
			t, err := c.region.LaunchTemplate(aws.ToString(s.LaunchTemplateId), aws.ToString(s.LaunchTemplateName))
			if err == nil {
				used[t.ID] = true
			}
		}
		for _, o := range config.Overrides {
			used[aws.ToString(o.SubnetId)], used[aws.ToString(o.ImageId)] = true, true
		}
	}
	delete(used, "")
	for _, id := range slices.Sorted(maps.Keys(used)) {
		out = append(out, c.uses("CreateFleet", id))
	}
	return out
}

// launched describes the resources involved in a launch.
type launched struct {
	template     *region.LaunchTemplate
	data         region.TemplateData // of the call and of the template's version; tags only of the latter
	image        string
	subnets      []string
	spot         bool
	given        map[types.ResourceType]map[string]string // tags in the call, by resource type
	createAction string                                   // name of the call
}

func givenTags(specifications []types.TagSpecification) map[types.ResourceType]map[string]string {
	out := map[types.ResourceType]map[string]string{}
	for _, s := range specifications {
		out[s.ResourceType] = tagMap(s.Tags)
	}
	return out
}

// launchAccess returns the accesses for launching instances (EC2 user guide, "Example policies … RunInstances").
func (c authorizer) launchAccess(l launched) []access {
	var out []access
	kinds := []types.ResourceType{
		types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface,
	}
	if l.spot {
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
	}
	for _, kind := range kinds {
		tags, action := l.given[kind], l.createAction
		if len(tags) == 0 {
			tags, action = l.data.Tags[string(kind)], "RunInstances"
		}
		made := c.create("RunInstances", string(kind), tags)
		if len(made) > 1 {
			made[1].keys["ec2:CreateAction"] = action
		}
		out = append(out, made...)
	}
	used := append(slices.Clone(l.data.SecurityGroupIDs), l.image, l.data.Reservation.Target)
	if len(l.subnets) == 0 || slices.Contains(l.subnets, "") {
		used = append(used, l.data.SubnetID)
	}
	for _, id := range append(used, l.subnets...) {
		if id != "" {
			out = append(out, c.uses("RunInstances", c.groupID(nil, &id)))
		}
	}
	if l.template != nil {
		out = append(out, c.uses("RunInstances", l.template.ID))
	}
	if group := l.data.Placement.Group; group != "" {
		arn, tags := c.placementGroup(group)
		out = append(out, access{action: "ec2:RunInstances", resource: arn, tags: tags})
	}
	if p, err := c.region.InstanceProfile(l.data.InstanceProfile); err == nil {
		for _, role := range p.Roles {
			out = append(out, c.passRole(role))
		}
	}
	return out
}

// passRole returns the access for passing a role to EC2 (IAM user guide, "Grant a user permissions to pass a role to
// an AWS service").
func (c authorizer) passRole(role string) access {
	arn, tags := iamPrincipal(region.RolePrincipal)(c, role, nil)
	return access{
		action: "iam:PassRole", resource: arn, tags: tags,
		keys: map[string]string{"iam:PassedToService": "ec2.amazonaws.com"},
	}
}

// fleetLaunchAccess returns the accesses for launching the instances of a fleet.
func (c authorizer) fleetLaunchAccess(in *ec2.CreateFleetInput) []access {
	var out []access
	target := in.TargetCapacitySpecification
	for _, config := range in.LaunchTemplateConfigs {
		s := config.LaunchTemplateSpecification
		if s == nil {
			continue
		}
		l := launched{
			spot:         target.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeSpot,
			createAction: "CreateFleet", given: givenTags(in.TagSpecifications),
		}
		for _, o := range config.Overrides {
			if id := aws.ToString(o.SubnetId); !slices.Contains(l.subnets, id) {
				l.subnets = append(l.subnets, id)
			}
			l.image = aws.ToString(o.ImageId)
		}
		out = append(out, c.fromTemplate(l, s.LaunchTemplateId, s.LaunchTemplateName, s.Version)...)
	}
	return out
}

// fromTemplate is launchAccess with the data of a template version added where the call sets none. If there is no such
// version, it returns nil: the call itself will fail.
func (c authorizer) fromTemplate(l launched, id, name, version *string) []access {
	t, err := c.region.LaunchTemplate(aws.ToString(id), aws.ToString(name))
	if err != nil {
		return nil
	}
	n, err := wantedVersions(t, []string{cmp.Or(aws.ToString(version), "$Default")})
	if err != nil {
		return nil
	}
	l.template, l.data = &t, l.data.Over(t.Versions[n[0]-1])
	l.image = cmp.Or(l.image, l.data.ImageID)
	return c.launchAccess(l)
}

func runAccess(c authorizer, in *ec2.RunInstancesInput) []access {
	data, _ := templateData(copyOf[types.RequestLaunchTemplateData](in)) // the call itself reports its errors
	data.Tags = nil                                                      // given has them
	l := launched{
		image: aws.ToString(in.ImageId), createAction: "RunInstances", given: givenTags(in.TagSpecifications),
		spot: in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType == types.MarketTypeSpot,
		data: data, subnets: []string{aws.ToString(in.SubnetId)},
	}
	if t := in.LaunchTemplate; t != nil {
		return c.fromTemplate(l, t.LaunchTemplateId, t.LaunchTemplateName, t.Version)
	}
	return c.launchAccess(l)
}

func templateAccess(c authorizer, in *ec2.CreateLaunchTemplateInput) []access {
	return c.create("CreateLaunchTemplate", "launch-template",
		tagsFor(types.ResourceTypeLaunchTemplate, in.TagSpecifications))
}

func reservationAccess(c authorizer, in *ec2.CreateCapacityReservationInput) []access {
	return c.create("CreateCapacityReservation", "capacity-reservation",
		tagsFor(types.ResourceTypeCapacityReservation, in.TagSpecifications))
}

func interfaceAccess(c authorizer, in *ec2.CreateNetworkInterfaceInput) []access {
	out := c.create("CreateNetworkInterface", "network-interface",
		tagsFor(types.ResourceTypeNetworkInterface, in.TagSpecifications))
	for _, id := range append(slices.Clone(in.Groups), aws.ToString(in.SubnetId)) {
		out = append(out, c.uses("CreateNetworkInterface", id))
	}
	return out
}

func groupAccess(c authorizer, in *ec2.CreateSecurityGroupInput) []access {
	return append(c.create("CreateSecurityGroup", "security-group",
		tagsFor(types.ResourceTypeSecurityGroup, in.TagSpecifications)),
		c.uses("CreateSecurityGroup", cmp.Or(aws.ToString(in.VpcId), region.VPCID)))
}

func placementGroupAccess(c authorizer, in *ec2.CreatePlacementGroupInput) []access {
	return c.create("CreatePlacementGroup", "placement-group",
		tagsFor(types.ResourceTypePlacementGroup, in.TagSpecifications))
}

func placementGroupRemovalAccess(c authorizer, in *ec2.DeletePlacementGroupInput) []access {
	arn, tags := c.placementGroup(aws.ToString(in.GroupName))
	return []access{{action: "ec2:DeletePlacementGroup", resource: arn, tags: tags}}
}

func subnetAccess(c authorizer, in *ec2.CreateSubnetInput) []access {
	return append(c.create("CreateSubnet", "subnet", tagsFor(types.ResourceTypeSubnet, in.TagSpecifications)),
		c.uses("CreateSubnet", aws.ToString(in.VpcId)))
}

// profileAccess returns the accesses for creating an instance profile. If the call gives it tags, the caller also
// needs to tag it, and the tags already apply to that access (Service Authorization Reference, CreateInstanceProfile,
// dependent actions).
func profileAccess(c authorizer, in *iam.CreateInstanceProfileInput) []access {
	a := access{
		action: "iam:CreateInstanceProfile", given: tagsIn(in),
		resource: iamARN("instance-profile", cmp.Or(aws.ToString(in.Path), "/"), aws.ToString(in.InstanceProfileName)),
	}
	if len(a.given) == 0 {
		return []access{a}
	}
	tag := a
	tag.action, tag.tags = "iam:TagInstanceProfile", a.given
	return []access{a, tag}
}

// profileRoleAccess includes PassRole, as adding a role to a profile passes it to EC2.
func profileRoleAccess(c authorizer, in *iam.AddRoleToInstanceProfileInput) []access {
	arn, tags := instanceProfileResource(c, aws.ToString(in.InstanceProfileName), in)
	return []access{{action: c.actionName(), resource: arn, tags: tags}, c.passRole(aws.ToString(in.RoleName))}
}

func profileRemovalAccess(c authorizer, in *iam.RemoveRoleFromInstanceProfileInput) []access {
	arn, tags := instanceProfileResource(c, aws.ToString(in.InstanceProfileName), in)
	return []access{{action: c.actionName(), resource: arn, tags: tags}}
}
