package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// versions are the versions that $Latest and $Default of a launch template stand for; nil if the template does not
// exist.
type versions struct{ latest, isDefault int64 }

// launch is what a group launches its instances from.
type launch struct {
	configuration string            // name of the launch configuration
	templates     map[string]string // version number by launch template ID: several if overrides have their own templates
	problem       string            // why it cannot launch instances
}

// specifications returns the launch templates that a group refers to, its own first.
func specifications(a *scalingtypes.AutoScalingGroup) []*scalingtypes.LaunchTemplateSpecification {
	out := []*scalingtypes.LaunchTemplateSpecification{a.LaunchTemplate}
	if mixed := a.MixedInstancesPolicy; mixed != nil && mixed.LaunchTemplate != nil {
		out = append(out, mixed.LaunchTemplate.LaunchTemplateSpecification)
		for _, o := range mixed.LaunchTemplate.Overrides {
			out = append(out, o.LaunchTemplateSpecification)
		}
	}
	return slices.DeleteFunc(out, func(s *scalingtypes.LaunchTemplateSpecification) bool { return s == nil })
}

// launchOf returns what a group launches from. known holds the versions of its launch templates, by ID.
func launchOf(a *scalingtypes.AutoScalingGroup, known map[string]*versions) launch {
	l := launch{configuration: aws.ToString(a.LaunchConfigurationName), templates: map[string]string{}}
	give := "; give it one: aws autoscaling update-auto-scaling-group --auto-scaling-group-name " +
		aws.ToString(a.AutoScalingGroupName) + " --launch-template LaunchTemplateId=…"
	for _, s := range specifications(a) {
		id := aws.ToString(s.LaunchTemplateId)
		v := known[id]
		if v == nil {
			l.problem = fmt.Sprintf("its launch template %s (%s) does not exist%s", aws.ToString(s.LaunchTemplateName), id, give)
			return l
		}
		switch number := cmp.Or(aws.ToString(s.Version), "$Default"); number {
		case "$Latest":
			l.templates[id] = strconv.FormatInt(v.latest, 10)
		case "$Default":
			l.templates[id] = strconv.FormatInt(v.isDefault, 10)
		default:
			l.templates[id] = number
		}
	}
	if l.configuration == "" && len(l.templates) == 0 {
		l.problem = "it has neither a launch template nor a launch configuration" + give
	}
	return l
}

// outdated returns how an instance differs from what the group launches now, or "" if it does not. AWS names no
// launch configuration for an instance whose launch configuration was deleted
// (https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Instance.html).
func (l launch) outdated(in *scalingtypes.Instance) string {
	switch {
	case l.problem != "":
		return ""
	case l.configuration != "":
		if had := aws.ToString(in.LaunchConfigurationName); had != l.configuration {
			return fmt.Sprintf("launch configuration %s, the group has %s", cmp.Or(had, "deleted"), l.configuration)
		}
		return ""
	case in.LaunchTemplate == nil:
		return "launched without a launch template"
	}
	id, version := aws.ToString(in.LaunchTemplate.LaunchTemplateId), aws.ToString(in.LaunchTemplate.Version)
	switch want := l.templates[id]; want {
	case version:
		return ""
	case "":
		return "launched from another launch template, " + id
	default:
		return fmt.Sprintf("version %s of the launch template, the group has %s", version, want)
	}
}
