package awsapi

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

var images = kind[types.Image]{
	key: "ImageId", usual: 1000,
	filters: `image-id state owner-id owner-alias=ImageOwnerAlias is-public=Public architecture image-type name
		description creation-date root-device-type platform platform-details virtualization-type hypervisor ena-support
		tag-key=Tags.Key tag-value=Tags.Value`,
	ids: []naming{{"ImageIds", "ImageId", "InvalidAMIID.NotFound", "The image id '[%s]' does not exist"}},
}

// imageLife is the time from an image's creation until EKS deprecates it.
const imageLife = 2 * 365 * 24 * time.Hour

func imageOf(i region.Image) types.Image {
	return types.Image{
		ImageId: &i.ID, ImageLocation: new("amazon/" + i.Name), State: types.ImageStateAvailable, OwnerId: &i.OwnerID,
		ImageOwnerAlias: new("amazon"), Public: new(true), Architecture: types.ArchitectureValues(i.Architecture),
		ImageType: types.ImageTypeValuesMachine, Name: &i.Name, Description: &i.Description,
		CreationDate: new(stamp(i.Created)), DeprecationTime: new(stamp(i.Created.Add(imageLife))),
		RootDeviceType: types.DeviceTypeEbs, RootDeviceName: &i.RootDevice,
		VirtualizationType: types.VirtualizationTypeHvm, Hypervisor: types.HypervisorTypeXen, EnaSupport: new(true),
		Platform: platformOf(i.Windows), PlatformDetails: platformDetails(i.Windows), Tags: tagsOf(i.Tags),
	}
}

// platformOf returns "windows" or, for Linux, nothing, as EC2 does.
func platformOf(windows string) types.PlatformValues {
	if windows == "" {
		return ""
	}
	return "windows" // the SDK's constant is spelt differently from EC2's responses
}

func platformDetails(windows string) *string {
	if windows == "" {
		return new("Linux/UNIX")
	}
	return new("Windows")
}

// describeImages omits deprecated images unless the call names images or asks for deprecated ones, as EC2 does.
func describeImages(c *call, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	now, all := c.region.Now(), []types.Image(nil)
	for _, i := range c.region.Images() {
		if aws.ToBool(in.IncludeDeprecated) || len(in.ImageIds) > 0 || !now.After(i.Created.Add(imageLife)) {
			all = append(all, imageOf(i))
		}
	}
	found, err := images.choose(in, all)
	if err != nil {
		return nil, err
	}
	if len(in.Owners) > 0 { // no image is the account's own
		found = slices.DeleteFunc(found, func(i types.Image) bool {
			return !slices.Contains(in.Owners, *i.OwnerId) && !slices.Contains(in.Owners, *i.ImageOwnerAlias)
		})
	}
	found, next, err := images.page(in, found)
	return &ec2.DescribeImagesOutput{Images: found, NextToken: next}, err
}
