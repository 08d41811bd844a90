package awsapi

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// scaler is a region with launch template "web" and a client of EC2 Auto Scaling.
type scaler struct {
	buyer
	groups   *autoscaling.Client
	template region.LaunchTemplate
}

func newScaler(t *testing.T) scaler {
	t.Helper()
	s := scaler{buyer: newBuyer(t)}
	s.groups = autoscaling.NewFromConfig(configFor(s.url, "us-west-2"))
	data := region.TemplateData{ImageID: s.image, InstanceType: "m5.large"}
	var err error
	if s.template, err = s.region.CreateLaunchTemplate("web", data, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// create creates a group of one instance.
func (s scaler) create(t *testing.T, name string, change func(*autoscaling.CreateAutoScalingGroupInput)) {
	t.Helper()
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: aws.Int32(1), MaxSize: aws.Int32(2),
		VPCZoneIdentifier: &s.region.Subnets()[0].ID,
	}
	change(in)
	if _, err := s.groups.CreateAutoScalingGroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func TestAGroupTellsBothNamesOfItsTemplate(t *testing.T) {
	s := newScaler(t)
	byID := &types.LaunchTemplateSpecification{LaunchTemplateId: &s.template.ID, Version: aws.String("$Latest")}
	byName := &types.LaunchTemplateSpecification{LaunchTemplateName: &s.template.Name, Version: aws.String("1")}
	s.create(t, "id", func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = byID })
	s.create(t, "name", func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = byName })
	policy := &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
		LaunchTemplateSpecification: byName, Overrides: []types.LaunchTemplateOverrides{
			{InstanceType: aws.String("m5.large"), LaunchTemplateSpecification: byID}, {InstanceType: aws.String("c5.large")},
		},
	}}
	s.create(t, "mixed", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MixedInstancesPolicy = policy })
	s.create(t, "updated", func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = byID })
	_, err := s.groups.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("updated"), LaunchTemplate: byName,
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.groups.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil || len(out.AutoScalingGroups) != 4 {
		t.Fatalf("groups %+v, %v", out, err)
	}
	for _, g := range out.AutoScalingGroups {
		l, version := g.LaunchTemplate, "1"
		if *g.AutoScalingGroupName == "id" {
			version = "$Latest"
		}
		if p := g.MixedInstancesPolicy; p != nil {
			l = p.LaunchTemplate.LaunchTemplateSpecification
			own := p.LaunchTemplate.Overrides[0].LaunchTemplateSpecification
			if own == nil || aws.ToString(own.LaunchTemplateName) != "web" ||
				aws.ToString(own.LaunchTemplateId) != s.template.ID ||
				p.LaunchTemplate.Overrides[1].LaunchTemplateSpecification != nil {
				t.Errorf("overrides %+v", p.LaunchTemplate.Overrides)
			}
		}
		if aws.ToString(l.LaunchTemplateId) != s.template.ID || aws.ToString(l.LaunchTemplateName) != "web" ||
			aws.ToString(l.Version) != version {
			t.Errorf("group %s has template %s, %s, version %s", *g.AutoScalingGroupName, aws.ToString(l.LaunchTemplateId),
				aws.ToString(l.LaunchTemplateName), aws.ToString(l.Version))
		}
	}
}

func TestVersionsOfAllTemplatesAreLatestOrDefault(t *testing.T) {
	b := newBuyer(t)
	for _, v := range []string{"$Latest", "$Default"} {
		out, err := b.DescribeLaunchTemplateVersions(t.Context(),
			&ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{v}})
		if err != nil || len(out.LaunchTemplateVersions) != 1 {
			t.Errorf("%s of all: %+v, %v", v, out, err)
		}
	}
	for _, versions := range [][]string{nil, {"1"}, {"$Latest", "1"}} {
		_, err := b.DescribeLaunchTemplateVersions(t.Context(),
			&ec2.DescribeLaunchTemplateVersionsInput{Versions: versions})
		wantCode(t, err, "MissingParameter")
	}
}

// Terraform always sends AutoRollback.
func TestARefreshMaySayThatItDoesNotRollBack(t *testing.T) {
	s := newScaler(t)
	s.create(t, "web", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("web")}
	})
	start := func(rollback bool) error {
		_, err := s.groups.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{
			AutoScalingGroupName: aws.String("web"), Preferences: &types.RefreshPreferences{AutoRollback: &rollback},
		})
		return err
	}
	wantCode(t, start(true), "ValidationError")
	if err := start(false); err != nil {
		t.Error(err)
	}
}

func TestTagsOfAWSStay(t *testing.T) {
	s := newScaler(t)
	s.create(t, "web", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("web")}
	})
	s.clock.Advance(time.Minute)
	members := s.region.AutoScalingGroups()[0].Members
	if len(members) != 1 {
		t.Fatalf("members %+v", members)
	}
	own := tags("AWS:autoscaling:groupName", "other")
	resources := []string{members[0].ID}
	_, err := s.DeleteTags(t.Context(), &ec2.DeleteTagsInput{
		Resources: resources, Tags: []ec2types.Tag{{Key: aws.String("aws:autoscaling:groupName")}},
	})
	wantCode(t, err, "InvalidParameterValue")
	_, err = s.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: resources, Tags: own})
	wantCode(t, err, "InvalidParameterValue")
	q := s.fleet("claim-1", "m5.large")
	q.TagSpecifications[0].Tags = own
	_, err = s.CreateFleet(t.Context(), q)
	wantCode(t, err, "InvalidParameterValue")
	_, err = s.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("tagged"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: "instance", Tags: own}},
		},
	})
	wantCode(t, err, "InvalidParameterValue")
	if i, _ := s.region.Instance(resources[0]); i.Tags["aws:autoscaling:groupName"] != "web" {
		t.Errorf("tags %v", i.Tags)
	}
}
