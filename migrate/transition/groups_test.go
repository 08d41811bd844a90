package transition

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// AWS refuses tags that only it may set, and templates that are named by ID and name, also in definitions that an
// earlier release saved.
func TestADeletedGroupCanBeCreatedAgain(t *testing.T) {
	spec := func() *scalingtypes.LaunchTemplateSpecification {
		return &scalingtypes.LaunchTemplateSpecification{
			LaunchTemplateId: aws.String("lt-1"), LaunchTemplateName: aws.String("web"), Version: aws.String("3"),
		}
	}
	saved, err := json.Marshal(scalingInput(scalingtypes.AutoScalingGroup{
		AutoScalingGroupName: aws.String("web"), DesiredCapacityType: aws.String("vcpu"),
		MixedInstancesPolicy: &scalingtypes.MixedInstancesPolicy{LaunchTemplate: &scalingtypes.LaunchTemplate{
			LaunchTemplateSpecification: spec(),
			Overrides:                   []scalingtypes.LaunchTemplateOverrides{{LaunchTemplateSpecification: spec()}},
		}},
		Tags: []scalingtypes.TagDescription{
			{Key: aws.String("aws:cloudformation:stack-name"), Value: aws.String("web")},
			{Key: aws.String("team"), Value: aws.String("shop")},
		},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	in, err := scalingDefinition(&Group{Name: "web", Definition: saved})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Tags) != 1 || aws.ToString(in.Tags[0].Key) != "team" || aws.ToString(in.DesiredCapacityType) != "vcpu" {
		t.Errorf("tags %+v, size in %s", in.Tags, aws.ToString(in.DesiredCapacityType))
	}
	template := in.MixedInstancesPolicy.LaunchTemplate
	for _, s := range []*scalingtypes.LaunchTemplateSpecification{
		template.LaunchTemplateSpecification, template.Overrides[0].LaunchTemplateSpecification,
	} {
		if s.LaunchTemplateName != nil || aws.ToString(s.LaunchTemplateId) != "lt-1" {
			t.Errorf("the template is %+v, want its ID alone", s)
		}
	}
	if _, err := scalingDefinition(&Group{Name: "web", Definition: []byte("{")}); err == nil {
		t.Error("a damaged definition is taken")
	}
}

func TestADeletedNodeGroupCanBeCreatedAgain(t *testing.T) {
	saved, err := json.Marshal(nodegroupInput(&ekstypes.Nodegroup{
		NodegroupName: aws.String("web"),
		Tags:          map[string]string{"aws:cloudformation:stack-name": "eksctl-prod-nodegroup-web", "team": "shop"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	in, err := nodegroupDefinition(&Group{Nodegroup: "web", Definition: saved})
	if err != nil || len(in.Tags) != 1 || in.Tags["team"] != "shop" || aws.ToString(in.NodegroupName) != "web" {
		t.Errorf("%+v, %v", in, err)
	}
}

// A group that is created again launches instances where and as the old one did.
func TestADefinitionHasTheSettingsOfItsGroup(t *testing.T) {
	group := func() scalingtypes.AutoScalingGroup {
		return scalingtypes.AutoScalingGroup{
			AvailabilityZones: []string{"us-west-2a"}, PlacementGroup: aws.String("near"),
			DefaultInstanceWarmup:            aws.Int32(30),
			CapacityReservationSpecification: &scalingtypes.CapacityReservationSpecification{},
			InstanceMaintenancePolicy:        &scalingtypes.InstanceMaintenancePolicy{},
			InstanceLifecyclePolicy:          &scalingtypes.InstanceLifecyclePolicy{},
			AvailabilityZoneDistribution:     &scalingtypes.AvailabilityZoneDistribution{},
			AvailabilityZoneImpairmentPolicy: &scalingtypes.AvailabilityZoneImpairmentPolicy{
				ZonalShiftEnabled: aws.Bool(true),
			},
			ServiceLinkedRoleARN: aws.String("arn:aws:iam::123456789012:role/AWSServiceRoleForAutoScaling_keys"),
			DeletionProtection:   scalingtypes.DeletionProtectionPreventForceDeletion,
		}
	}
	in := scalingInput(group(), nil)
	for _, name := range []string{
		"AvailabilityZones", "PlacementGroup", "DefaultInstanceWarmup", "CapacityReservationSpecification",
		"InstanceMaintenancePolicy", "InstanceLifecyclePolicy", "AvailabilityZoneDistribution",
		"AvailabilityZoneImpairmentPolicy", "SkipZonalShiftValidation", "ServiceLinkedRoleARN", "DeletionProtection",
	} {
		if reflect.ValueOf(in).Elem().FieldByName(name).IsZero() {
			t.Errorf("the definition lacks %s", name)
		}
	}
	usual := group()
	usual.VPCZoneIdentifier, usual.ServiceLinkedRoleARN = aws.String("subnet-1"),
		aws.String("arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling")
	if in := scalingInput(usual, nil); in.AvailabilityZones != nil || in.ServiceLinkedRoleARN != nil {
		t.Errorf("zones %v beside subnets, role %s, which AWS takes anyway", in.AvailabilityZones,
			aws.ToString(in.ServiceLinkedRoleARN))
	}
}

// A group is restored when its instances have its size, whatever that is counted in.
func TestTheSizeOfARestoredGroup(t *testing.T) {
	group := func(desired int32, kind string, weights ...string) (want, have int) {
		a := &scalingtypes.AutoScalingGroup{}
		if kind != "" {
			a.DesiredCapacityType = &kind
		}
		for _, w := range weights {
			in := scalingtypes.Instance{}
			if w != "" {
				in.WeightedCapacity = &w
			}
			a.Instances = append(a.Instances, in)
			have += units(a, &in)
		}
		return (&Group{Desired: desired}).size(a), have
	}
	for name, c := range map[string]struct {
		desired  int32
		kind     string
		weights  []string
		restored bool
	}{
		"one each":              {2, "", []string{"", ""}, true},
		"one is missing":        {3, "units", []string{"", ""}, false},
		"weights":               {12, "", []string{"4", "4", "4"}, true},
		"a weight is missing":   {12, "", []string{"4", "4"}, false},
		"CPUs":                  {64, "vcpu", []string{"", ""}, true},
		"CPUs, no instance yet": {64, "vcpu", nil, false},
		"nothing was wanted":    {0, "memory-mib", nil, true},
	} {
		if want, have := group(c.desired, c.kind, c.weights...); (have >= want) != c.restored {
			t.Errorf("%s: has %d of %d", name, have, want)
		}
	}
}
