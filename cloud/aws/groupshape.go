package aws

import (
	"cmp"
	"context"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/engine/model"
)

// templateTag begins the tags that describe the nodes of a group, which Cluster Autoscaler introduced
// (github.com/kubernetes/autoscaler/cluster-autoscaler/cloudprovider/aws/README.md, "Auto-Discovery Setup").
const templateTag = "k8s.io/cluster-autoscaler/node-template/"

// readTemplateTags reads labels, taints and resources from a group's tags. The value of a taint is VALUE:EFFECT.
func readTemplateTags(tags []astypes.TagDescription, into *v1alpha1.NodeGroupStatus) error {
	into.Labels, into.Taints, into.Resources = nil, nil, nil
	for _, t := range tags {
		rest, ours := strings.CutPrefix(awssdk.ToString(t.Key), templateTag)
		kind, key, named := strings.Cut(rest, "/")
		if !ours || !named {
			continue
		}
		value, bad := awssdk.ToString(t.Value), ""
		switch kind {
		case "label":
			if into.Labels == nil {
				into.Labels = map[string]string{}
			}
			into.Labels[key] = value
		case "taint":
			taint, ok := taintOf(key, value)
			if into.Taints = append(into.Taints, taint); !ok {
				bad = "VALUE:EFFECT, such as gpu:NoSchedule"
			}
		case "resources":
			q, err := resource.ParseQuantity(value)
			if into.Resources == nil {
				into.Resources = corev1.ResourceList{}
			}
			if into.Resources[corev1.ResourceName(key)] = q; err != nil {
				bad = "a quantity, such as 100Gi"
			}
		}
		if bad != "" {
			return fault(v1alpha1.ConditionTemplateFound, "TagInvalid", "tag %s of the Auto Scaling group is %q; write %s",
				awssdk.ToString(t.Key), value, bad)
		}
	}
	slices.SortFunc(into.Taints, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect))
	})
	return nil
}

func taintOf(key, value string) (corev1.Taint, bool) {
	at := strings.LastIndex(value, ":")
	if at < 0 {
		return corev1.Taint{}, false
	}
	t := corev1.Taint{Key: key, Value: value[:at], Effect: corev1.TaintEffect(value[at+1:])}
	return t, slices.Contains([]corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	}, t.Effect)
}

// groupShape is what a group launches.
type groupShape struct {
	types, capacityTypes []string
	image                string
}

// shapeOf reads what a group launches from its launch configuration or launch template, and its mixed instances policy.
func (s *groups) shapeOf(ctx context.Context, g *astypes.AutoScalingGroup) (groupShape, error) {
	if name := awssdk.ToString(g.LaunchConfigurationName); name != "" {
		return s.configuredShape(ctx, name)
	}
	template, mixed := g.LaunchTemplate, g.MixedInstancesPolicy
	if mixed != nil && mixed.LaunchTemplate != nil {
		template = mixed.LaunchTemplate.LaunchTemplateSpecification
	}
	name := awssdk.ToString(g.AutoScalingGroupName)
	if template == nil {
		return groupShape{}, fault(v1alpha1.ConditionTemplateFound, "TemplateNotFound",
			"Auto Scaling group %s has neither a launch template nor a launch configuration; give it one", name)
	}
	data, err := s.templateData(ctx, name, template)
	if err != nil {
		return groupShape{}, err
	}
	out := groupShape{image: awssdk.ToString(data.ImageId), capacityTypes: []string{model.OnDemand}}
	if m := data.InstanceMarketOptions; m != nil && m.MarketType == ec2types.MarketTypeSpot {
		out.capacityTypes = []string{model.Spot}
	}
	if data.InstanceType != "" {
		out.types = []string{string(data.InstanceType)}
	}
	byAttributes := data.InstanceRequirements != nil
	if mixed != nil {
		overrides, attributes, err := overriddenTypes(name, mixed)
		if err != nil {
			return out, err
		}
		if len(overrides) > 0 || attributes {
			out.types, byAttributes = overrides, attributes
		}
		out.capacityTypes = mixedCapacity(mixed.InstancesDistribution)
	}
	switch {
	case byAttributes:
		return out, fault(v1alpha1.ConditionTemplateFound, "InstanceRequirements",
			"Auto Scaling group %s selects instance types by attributes, which is not supported; name the types as overrides "+
				"of its mixed instances policy", name)
	case len(out.types) == 0:
		return out, fault(v1alpha1.ConditionTemplateFound, "NoInstanceType",
			"the launch template of Auto Scaling group %s names no instance type; add one to it, or overrides to the group",
			name)
	}
	return out, nil
}

// configuredShape reads a launch configuration.
func (s *groups) configuredShape(ctx context.Context, name string) (groupShape, error) {
	out, err := s.autoscaling.DescribeLaunchConfigurations(ctx,
		&autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{name}})
	if err != nil {
		return groupShape{}, wrap("describe launch configuration "+name, "autoscaling:DescribeLaunchConfigurations", err)
	}
	if len(out.LaunchConfigurations) == 0 {
		return groupShape{}, fault(v1alpha1.ConditionTemplateFound, "TemplateNotFound",
			"launch configuration %s does not exist any more; give the Auto Scaling group another one", name)
	}
	c := out.LaunchConfigurations[0]
	shape := groupShape{
		types: []string{awssdk.ToString(c.InstanceType)}, image: awssdk.ToString(c.ImageId),
		capacityTypes: []string{model.OnDemand},
	}
	if awssdk.ToString(c.SpotPrice) != "" {
		shape.capacityTypes = []string{model.Spot}
	}
	return shape, nil
}

// templateData reads a version of a launch template.
func (s *groups) templateData(ctx context.Context, group string, t *astypes.LaunchTemplateSpecification,
) (*ec2types.ResponseLaunchTemplateData, error) {
	in := &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: t.LaunchTemplateId,
		Versions:         []string{cmp.Or(awssdk.ToString(t.Version), "$Default")},
	}
	if awssdk.ToString(t.LaunchTemplateId) == "" { // EC2 refuses both
		in.LaunchTemplateName = t.LaunchTemplateName
	}
	name := cmp.Or(awssdk.ToString(t.LaunchTemplateName), awssdk.ToString(t.LaunchTemplateId))
	out, err := s.ec2.DescribeLaunchTemplateVersions(ctx, in)
	missing := err == nil && len(out.LaunchTemplateVersions) == 0
	if c := code(err); isMissingTemplate(c) || c == "InvalidLaunchTemplateId.VersionNotFound" || missing {
		return nil, fault(v1alpha1.ConditionTemplateFound, "TemplateNotFound",
			"version %s of launch template %s does not exist any more; give Auto Scaling group %s another one", in.Versions[0],
			name, group)
	}
	if err != nil {
		return nil, wrap("describe launch template "+name, "ec2:DescribeLaunchTemplateVersions", err)
	}
	return out.LaunchTemplateVersions[0].LaunchTemplateData, nil
}

// overriddenTypes returns the instance types of a mixed instances policy, and whether it selects some by attributes.
func overriddenTypes(group string, mixed *astypes.MixedInstancesPolicy) (types []string, byAttributes bool, err error) {
	if mixed.LaunchTemplate == nil {
		return nil, false, nil
	}
	for _, o := range mixed.LaunchTemplate.Overrides {
		if w := awssdk.ToString(o.WeightedCapacity); w != "" && w != "1" {
			return nil, false, fault(v1alpha1.ConditionTemplateFound, "WeightedCapacity",
				"Auto Scaling group %s counts an instance of %s as %s: its sizes have to be numbers of instances; remove "+
					"the weights", group, awssdk.ToString(o.InstanceType), w)
		}
		byAttributes = byAttributes || o.InstanceRequirements != nil
		if t := awssdk.ToString(o.InstanceType); t != "" && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types, byAttributes, nil
}

// mixedCapacity returns the capacity types of a distribution. Without one, all instances are on-demand (EC2 Auto
// Scaling API reference, InstancesDistribution).
func mixedCapacity(d *astypes.InstancesDistribution) []string {
	share, base := int32(100), int32(0)
	if d != nil {
		base = awssdk.ToInt32(d.OnDemandBaseCapacity)
		if d.OnDemandPercentageAboveBaseCapacity != nil {
			share = *d.OnDemandPercentageAboveBaseCapacity
		}
	}
	switch {
	case share >= 100:
		return []string{model.OnDemand}
	case share <= 0 && base == 0:
		return []string{model.Spot}
	}
	return []string{model.OnDemand, model.Spot}
}
