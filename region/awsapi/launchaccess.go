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

// accessRule lists what calls of one action need to be allowed.
type accessRule func(c authorizer, in any) []access

// rule makes an accessRule of a function of the action's own input.
func rule[In any](f func(authorizer, *In) []access) accessRule {
	return func(c authorizer, in any) []access { return f(c, in.(*In)) }
}

// accessRules are those of actions that create something, or that need more than themselves.
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

// create is the access to a new EC2 resource with tags, and to the tagging that is part of its creation (EC2 user
// guide, "Grant permission to tag Amazon EC2 resources during creation").
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

// uses is the access to an existing EC2 resource.
func (c authorizer) uses(action, id string) access {
	arn, tags := ec2Resource(c, id, nil)
	return access{action: "ec2:" + action, resource: arn, tags: tags}
}

// fleetAccess is what CreateFleet itself needs: the fleet, what it tags, its templates and what its overrides name
// (Service Authorization Reference, CreateFleet). That the fleet may launch is a matter of launchAccess: if not, EC2
// answers with errors in the fleet.
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

// launched is what one launch puts together.
type launched struct {
	template     *region.LaunchTemplate
	data         region.TemplateData // of the template's version, or of the call
	image        string
	subnets      []string
	spot         bool
	given        map[types.ResourceType]map[string]string // tags of the call, by resource
	createAction string                                   // the call
}

func givenTags(specifications []types.TagSpecification) map[types.ResourceType]map[string]string {
	out := map[types.ResourceType]map[string]string{}
	for _, s := range specifications {
		out[s.ResourceType] = tagMap(s.Tags)
	}
	return out
}

// launchAccess is what launching instances needs (EC2 user guide, "Example policies … RunInstances").
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
	for _, id := range append(used, l.subnets...) {
		if id != "" {
			out = append(out, c.uses("RunInstances", id))
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

// passRole is the access that giving a role to EC2 needs (IAM user guide, "Grant a user permissions to pass a role to
// an AWS service").
func (c authorizer) passRole(role string) access {
	arn, tags := iamPrincipal(region.RolePrincipal)(c, role, nil)
	return access{
		action: "iam:PassRole", resource: arn, tags: tags,
		keys: map[string]string{"iam:PassedToService": "ec2.amazonaws.com"},
	}
}

// fleetLaunchAccess is what the instances of a fleet need.
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

// fromTemplate is launchAccess with what a version of a template adds; the call itself says if there is none.
func (c authorizer) fromTemplate(l launched, id, name, version *string) []access {
	t, err := c.region.LaunchTemplate(aws.ToString(id), aws.ToString(name))
	if err != nil {
		return nil
	}
	n, err := wantedVersions(t, []string{cmp.Or(aws.ToString(version), "$Default")})
	if err != nil {
		return nil
	}
	data := t.Versions[n[0]-1]
	l.template, l.data = &t, data
	if l.image == "" {
		l.image = data.ImageID
	}
	return c.launchAccess(l)
}

func runAccess(c authorizer, in *ec2.RunInstancesInput) []access {
	l := launched{
		image: aws.ToString(in.ImageId), createAction: "RunInstances", given: givenTags(in.TagSpecifications),
		spot: in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType == types.MarketTypeSpot,
		data: region.TemplateData{SecurityGroupIDs: in.SecurityGroupIds}, subnets: []string{aws.ToString(in.SubnetId)},
	}
	if c := in.CapacityReservationSpecification; c != nil && c.CapacityReservationTarget != nil {
		l.data.Reservation.Target = aws.ToString(c.CapacityReservationTarget.CapacityReservationId)
	}
	if in.IamInstanceProfile != nil {
		l.data.InstanceProfile = aws.ToString(in.IamInstanceProfile.Name)
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

// profileAccess: a profile that is created with tags is tagged by the caller, too, and has them then (Service
// Authorization Reference, CreateInstanceProfile, dependent actions).
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

// profileRoleAccess: the role is passed to EC2 with the profile.
func profileRoleAccess(c authorizer, in *iam.AddRoleToInstanceProfileInput) []access {
	arn, tags := instanceProfileResource(c, aws.ToString(in.InstanceProfileName), in)
	return []access{{action: c.actionName(), resource: arn, tags: tags}, c.passRole(aws.ToString(in.RoleName))}
}

func profileRemovalAccess(c authorizer, in *iam.RemoveRoleFromInstanceProfileInput) []access {
	arn, tags := instanceProfileResource(c, aws.ToString(in.InstanceProfileName), in)
	return []access{{action: c.actionName(), resource: arn, tags: tags}}
}
