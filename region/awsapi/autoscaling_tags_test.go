package awsapi

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/nodeless/nodeless/region"
)

// DeleteTags of EC2 Auto Scaling names the groups in the tags, unlike EC2's call of that name.
func TestTagsOfAGroupAreDeleted(t *testing.T) {
	r, _, config := memoryRegion(t)
	image, err := r.Parameter("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		t.Fatal(err)
	}
	data := region.TemplateData{ImageID: image, InstanceType: "m5.large"}
	if _, err := r.CreateLaunchTemplate("web", data, nil); err != nil {
		t.Fatal(err)
	}
	tags := []region.GroupTag{{Key: "team", Value: "a"}, {Key: "kept", Value: "here"}}
	err = r.CreateAutoScalingGroup("web", region.GroupSettings{
		Max: 1, Subnets: []string{r.Subnets()[0].ID}, Launch: region.GroupLaunch{Template: region.TemplateRef{Name: "web"}},
	}, tags, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := autoscaling.NewFromConfig(config)
	_, err = client.DeleteTags(t.Context(), &autoscaling.DeleteTagsInput{Tags: []types.Tag{{
		Key: aws.String("team"), ResourceId: aws.String("web"), ResourceType: aws.String("auto-scaling-group"),
	}}})
	if left := r.AutoScalingGroups()[0].Tags; err != nil || len(left) != 1 || left[0].Key != "kept" {
		t.Errorf("tags %v, %v", left, err)
	}
}
