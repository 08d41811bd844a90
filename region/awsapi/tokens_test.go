package awsapi

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// Each call creates something with a token, twice, and then something else with the same token.
func TestAClientTokenCreatesOnce(t *testing.T) {
	b := newBuyer(t)
	clusters := eks.NewFromConfig(configFor(b.url, "us-west-2"))
	subnets := []string{b.region.Subnets()[0].ID}
	const ec2Code, eksCode = "IdempotentParameterMismatch", "InvalidRequestException"
	for name, c := range map[string]struct {
		code   string
		create func(token, other string) (id string, err error)
	}{
		"CreateNetworkInterface": {ec2Code, func(token, other string) (string, error) {
			out, err := b.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{
				ClientToken: &token, SubnetId: &subnets[0], Description: &other,
			})
			if err != nil {
				return "", err
			}
			return *out.NetworkInterface.NetworkInterfaceId, nil
		}},
		"CreateLaunchTemplate": {ec2Code, func(token, other string) (string, error) {
			out, err := b.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
				ClientToken: &token, LaunchTemplateName: aws.String("node" + token),
				LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: &b.image, KeyName: &other},
			})
			if err != nil {
				return "", err
			}
			return *out.LaunchTemplate.LaunchTemplateId, nil
		}},
		"CreateCapacityReservation": {ec2Code, func(token, other string) (string, error) {
			out, err := b.CreateCapacityReservation(t.Context(), &ec2.CreateCapacityReservationInput{
				ClientToken: &token, AvailabilityZone: aws.String("us-west-2a"), InstanceType: aws.String("m5.large"),
				InstancePlatform: "Linux/UNIX", InstanceCount: aws.Int32(1),
				TagSpecifications: []ec2types.TagSpecification{{
					ResourceType: "capacity-reservation", Tags: tags("for", "a"+other),
				}},
			})
			if err != nil {
				return "", err
			}
			return *out.CapacityReservation.CapacityReservationId, nil
		}},
		"CreateNodegroup": {eksCode, func(token, other string) (string, error) {
			out, err := clusters.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
				ClientRequestToken: &token, ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web" + token),
				NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"), Subnets: subnets,
				Labels: map[string]string{"for": "a" + other},
			})
			if err != nil {
				return "", err
			}
			return *out.Nodegroup.NodegroupArn, nil
		}},
		"CreateFargateProfile": {eksCode, func(token, other string) (string, error) {
			out, err := clusters.CreateFargateProfile(t.Context(), &eks.CreateFargateProfileInput{
				ClientRequestToken: &token, ClusterName: aws.String("nodeless"), FargateProfileName: aws.String("web" + token),
				PodExecutionRoleArn: aws.String("arn:aws:iam::123456789012:role/nodes"),
				Selectors:           []ekstypes.FargateProfileSelector{{Namespace: aws.String("web" + other)}},
			})
			if err != nil {
				return "", err
			}
			b.clock.Advance(time.Minute) // until it is ACTIVE
			return *out.FargateProfile.FargateProfileArn, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			first := must[string](t)(c.create("one", ""))
			if again := must[string](t)(c.create("one", "")); again != first {
				t.Errorf("the same call created %s, then %s", first, again)
			}
			if other := must[string](t)(c.create("two", "")); other == first {
				t.Errorf("another token gives %s again", first)
			}
			_, err := c.create("one", "-other")
			wantCode(t, err, c.code)
		})
	}
}
