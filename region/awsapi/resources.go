package awsapi

import (
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/region"
)

// resourceField is an input member that names a resource, with a function that returns the resource's ARN and tags.
type resourceField struct {
	field    string
	resource func(c authorizer, value string, in any) (arn string, tags map[string]string)
}

// resourceFields are the members by which each service's calls name the resources that they act on (Service
// Authorization Reference, "Resource types"). If several members name resources, the call needs access to every one.
var resourceFields = map[string][]resourceField{
	serviceEC2: {
		{"InstanceId", ec2Resource},
		{"InstanceIds", ec2Resource},
		{"NetworkInterfaceId", ec2Resource},
		{"SubnetId", ec2Resource},
		{"GroupId", ec2Resource},
		{"Groups", ec2Resource},
		{"Resources", ec2Resource},
		{"LaunchTemplateId", ec2Resource},
		{"LaunchTemplateName", namedTemplate},
		{"AttachmentId", attachedInterface},
		{"CapacityReservationId", ec2Resource},
	},
	serviceIAM: {
		{"InstanceProfileName", instanceProfileResource},
		{"UserName", iamPrincipal(region.UserPrincipal)},
		{"RoleName", iamPrincipal(region.RolePrincipal)},
		{"PolicySourceArn", asGiven},
	},
	serviceSSM: {{"Name", parameterResource}, {"Names", parameterResource}, {"Path", parameterResource}},
	serviceSQS: {{"QueueUrl", queueResource}, {"QueueName", queueResource}},
	serviceEKS: {{"ResourceArn", eksTagged}, {"ClusterName", eksResource}, {"Name", eksResource}},
	serviceELB: {
		{"LoadBalancerArn", elbResource},
		{"TargetGroupArn", elbResource},
		{"ListenerArn", elbResource},
		{"RuleArn", elbResource},
		{"ResourceArns", elbResource},
		{"Name", newELBResource},
	},
	serviceScaling: {
		{"AutoScalingGroupName", scalingGroup},
		{"InstanceId", groupOfInstance},
		{"Tags", scalingGroup},
		{"LaunchConfigurationName", launchConfiguration},
	},
	serviceLogs: {{"LogGroupName", logGroup}},
	serviceARC:  {{"ResourceIdentifier", asGiven}},
}

// fieldTexts returns the strings in a member of an input; for a list of tags, the resource IDs.
func fieldTexts(in any, field string) []string {
	v := reflect.ValueOf(in).Elem().FieldByName(field)
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case *string:
		if aws.ToString(x) != "" {
			return []string{*x}
		}
	case []string:
		return x
	}
	if v.Kind() != reflect.Slice {
		return nil
	}
	var out []string
	for i := range v.Len() {
		if id := v.Index(i).FieldByName("ResourceId"); id.IsValid() { // of an EC2 Auto Scaling tag
			if x, ok := id.Interface().(*string); ok && !slices.Contains(out, aws.ToString(x)) {
				out = append(out, aws.ToString(x))
			}
		}
	}
	return out
}

// tagsIn returns the tags in an input, from its member Tags or TagKeys.
func tagsIn(in any) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(in).Elem()
	if keys := v.FieldByName("TagKeys"); keys.IsValid() {
		if list, ok := keys.Interface().([]string); ok {
			for _, k := range list {
				out[k] = ""
			}
		}
	}
	tags := v.FieldByName("Tags")
	if !tags.IsValid() {
		return out
	}
	if m, ok := tags.Interface().(map[string]string); ok {
		return m
	}
	for i := range tags.Len() {
		key, value := tags.Index(i).FieldByName("Key"), tags.Index(i).FieldByName("Value")
		if k, ok := key.Interface().(*string); ok {
			v, _ := value.Interface().(*string)
			out[aws.ToString(k)] = aws.ToString(v)
		}
	}
	return out
}

// arn returns the ARN of a resource of the account in the region.
func (c authorizer) arn(service, what string) string {
	return "arn:aws:" + service + ":" + c.region.Name() + ":" + region.AccountID + ":" + what
}

// ec2Kinds maps the prefixes of IDs to kinds of resources.
var ec2Kinds = map[string]string{
	"i": "instance", "lt": "launch-template", "subnet": "subnet", "eni": "network-interface", "sg": "security-group",
	"ami": "image", "vol": "volume", "fleet": "fleet", "sir": "spot-instances-request", "vpc": "vpc",
	"scr": "subnet-cidr-reservation", "cr": "capacity-reservation", "pg": "placement-group",
}

func ec2Resource(c authorizer, id string, _ any) (string, map[string]string) {
	prefix, _, _ := strings.Cut(id, "-")
	kind := ec2Kinds[prefix]
	if kind == "image" { // belongs to no account
		return "arn:aws:ec2:" + c.region.Name() + "::image/" + id, c.ec2Tags(id)
	}
	return c.arn("ec2", kind+"/"+id), c.ec2Tags(id)
}

// ec2Tags returns the tags of a resource.
func (c authorizer) ec2Tags(id string) map[string]string {
	if i, ok := c.region.Instance(id); ok {
		return i.Tags
	}
	out := map[string]string{}
	for _, t := range allTags(c.region) {
		if *t.ResourceId == id {
			out[*t.Key] = *t.Value
		}
	}
	return out
}

func namedTemplate(c authorizer, name string, in any) (string, map[string]string) {
	if strings.HasPrefix(c.action, "Create") && !strings.HasSuffix(c.action, "Version") {
		return c.arn("ec2", "launch-template/*"), nil
	}
	t, err := c.region.LaunchTemplate("", name)
	if err != nil { // the call itself will fail
		return c.arn("ec2", "launch-template/*"), nil
	}
	return ec2Resource(c, t.ID, in)
}

// placementGroup returns the ARN, which ends with the name, and the tags of a placement group, by ID or name.
func (c authorizer) placementGroup(group string) (arn string, tags map[string]string) {
	for _, g := range c.region.PlacementGroups() {
		if g.ID == group || g.Name == group {
			return c.arn("ec2", "placement-group/"+g.Name), g.Tags
		}
	}
	return c.arn("ec2", "placement-group/"+group), nil
}

func attachedInterface(c authorizer, attachment string, in any) (string, map[string]string) {
	for _, e := range c.region.NetworkInterfaces() {
		if e.AttachmentID == attachment {
			return ec2Resource(c, e.ID, in)
		}
	}
	return c.arn("ec2", "network-interface/*"), nil
}

func asGiven(_ authorizer, arn string, _ any) (string, map[string]string) { return arn, nil }

func instanceProfileResource(c authorizer, name string, _ any) (string, map[string]string) {
	p, err := c.region.InstanceProfile(name)
	if err != nil {
		p.Path = "/"
	}
	return iamARN("instance-profile", p.Path, name), p.Tags
}

func iamPrincipal(kind region.PrincipalKind) func(authorizer, string, any) (string, map[string]string) {
	return func(c authorizer, name string, _ any) (string, map[string]string) {
		if p, err := c.region.Principal(kind, name); err == nil {
			return p.ARN(), p.Tags
		}
		return iamARN(string(kind), "/", name), nil
	}
}

// parameterResource returns the ARN of a public parameter, which belongs to no account: the region has no others.
func parameterResource(c authorizer, name string, _ any) (string, map[string]string) {
	return "arn:aws:ssm:" + c.region.Name() + "::parameter/" + strings.TrimPrefix(name, "/"), nil
}

func queueResource(c authorizer, queue string, _ any) (string, map[string]string) {
	return c.arn("sqs", queue[strings.LastIndex(queue, "/")+1:]), nil
}

// eksResource returns the node group, profile, add-on or access entry of a call, or else its cluster.
func eksResource(c authorizer, cluster string, in any) (string, map[string]string) {
	if !strings.HasPrefix(c.action, "Create") && !strings.HasPrefix(c.action, "List") {
		for _, kind := range []struct{ field, name string }{
			{"NodegroupName", "nodegroup"},
			{"FargateProfileName", "fargateprofile"},
			{"AddonName", "addon"},
			{"PrincipalArn", "access-entry"},
		} {
			if names := fieldTexts(in, kind.field); len(names) > 0 {
				return c.ownEKSResource(kind.name, cluster, names[0])
			}
		}
	}
	return *c.eksARN("cluster", cluster), nil
}

func (c authorizer) ownEKSResource(kind, cluster, name string) (string, map[string]string) {
	groups, _ := c.region.Nodegroups(cluster) // no cluster, no node groups
	for _, g := range groups {
		if kind == "nodegroup" && g.Name == name {
			return g.ARN, g.Tags
		}
	}
	return *c.eksARN(kind, cluster, name, "*"), nil
}

// eksTagged returns the resource of a call about tags.
func eksTagged(c authorizer, arn string, _ any) (string, map[string]string) {
	parts := strings.Split(arn, "/")
	if strings.Contains(arn, ":nodegroup/") && len(parts) > 2 {
		return c.ownEKSResource("nodegroup", parts[1], parts[2])
	}
	return arn, nil
}

func elbResource(c authorizer, arn string, _ any) (string, map[string]string) {
	tags, _ := c.region.LoadBalancingTags(arn) // no tags if it does not exist
	return arn, tags
}

// newELBResource returns the ARN pattern of what a call is about to create.
func newELBResource(c authorizer, name string, _ any) (string, map[string]string) {
	if c.action == "CreateTargetGroup" {
		return c.arn("elasticloadbalancing", "targetgroup/"+name+"/*"), nil
	}
	return c.arn("elasticloadbalancing", "loadbalancer/app/"+name+"/*"), nil
}

func scalingGroup(c authorizer, name string, _ any) (string, map[string]string) {
	for _, g := range c.region.AutoScalingGroups() {
		if g.Name == name {
			tags := map[string]string{}
			for _, t := range g.Tags {
				tags[t.Key] = t.Value
			}
			return g.ARN, tags
		}
	}
	return c.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/"+name), nil
}

func groupOfInstance(c authorizer, id string, in any) (string, map[string]string) {
	for _, g := range c.region.AutoScalingGroups() {
		if slices.ContainsFunc(g.Members, func(m region.GroupMember) bool { return m.ID == id }) {
			return scalingGroup(c, g.Name, in)
		}
	}
	return c.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*"), nil
}

func launchConfiguration(c authorizer, name string, _ any) (string, map[string]string) {
	return c.arn("autoscaling", "launchConfiguration:*:launchConfigurationName/"+name), nil
}

func logGroup(c authorizer, name string, in any) (string, map[string]string) {
	for _, stream := range fieldTexts(in, "LogStreamName") {
		return c.arn("logs", "log-group:"+name+":log-stream:"+stream), nil
	}
	return c.arn("logs", "log-group:"+name+":*"), nil
}
