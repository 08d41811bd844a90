package awsapi

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/region"
)

type imageXML struct {
	ImageID            string      `xml:"imageId"`
	ImageLocation      string      `xml:"imageLocation"`
	State              string      `xml:"imageState"`
	OwnerID            string      `xml:"imageOwnerId"`
	OwnerAlias         string      `xml:"imageOwnerAlias,omitempty"`
	IsPublic           bool        `xml:"isPublic"`
	Architecture       string      `xml:"architecture"`
	ImageType          string      `xml:"imageType"`
	Name               string      `xml:"name"`
	Description        string      `xml:"description"`
	CreationDate       string      `xml:"creationDate"`
	DeprecationTime    string      `xml:"deprecationTime,omitempty"`
	RootDeviceType     string      `xml:"rootDeviceType"`
	RootDeviceName     string      `xml:"rootDeviceName"`
	VirtualizationType string      `xml:"virtualizationType"`
	Hypervisor         string      `xml:"hypervisor"`
	ENASupport         bool        `xml:"enaSupport"`
	PlatformDetails    string      `xml:"platformDetails"`
	TagSet             set[tagXML] `xml:"tagSet"`
}

func (i imageXML) id() string { return i.ImageID }

func (i imageXML) attributes() attributes {
	return attributes{
		"image-id": {i.ImageID}, "name": {i.Name}, "state": {i.State}, "architecture": {i.Architecture}, "owner-id": {i.OwnerID},
		"owner-alias": {i.OwnerAlias}, "image-type": {i.ImageType}, "is-public": boolText(i.IsPublic), "description": {i.Description},
		"root-device-type": {i.RootDeviceType}, "virtualization-type": {i.VirtualizationType}, "hypervisor": {i.Hypervisor},
		"creation-date": {i.CreationDate}, "ena-support": boolText(i.ENASupport),
	}.withTags(tagMap(i.TagSet))
}

type imagesAnswer struct {
	Images    set[imageXML] `xml:"imagesSet"`
	NextToken string        `xml:"nextToken,omitempty"`
}

// imageLife is how long after its making EKS deprecates an image.
const imageLife = 2 * 365 * 24 * time.Hour

func imageOf(i region.Image) imageXML {
	return imageXML{
		ImageID: i.ID, ImageLocation: "amazon/" + i.Name, State: "available", OwnerID: i.OwnerID, OwnerAlias: "amazon", IsPublic: true,
		Architecture: i.Architecture, ImageType: "machine", Name: i.Name, Description: i.Description, CreationDate: stamp(i.Created),
		DeprecationTime: stamp(i.Created.Add(imageLife)), RootDeviceType: "ebs", RootDeviceName: i.RootDevice, VirtualizationType: "hvm",
		Hypervisor: "xen", ENASupport: true, PlatformDetails: "Linux/UNIX", TagSet: tagsOf(i.Tags),
	}
}

// describeImages leaves out deprecated images unless they are asked for by id or in so many words, as EC2 does.
func describeImages(c *call) (any, error) {
	available, now := c.region.Images(), c.region.Now()
	if !c.form.boolean("IncludeDeprecated") && !c.form.has("ImageId") {
		available = slices.DeleteFunc(available, func(i region.Image) bool { return now.After(i.Created.Add(imageLife)) })
	}
	all := setOf(available, imageOf).Items
	found, err := named(all, c.form.strs("ImageId"), imageXML.id, "InvalidAMIID.NotFound", "The image id '[%s]' does not exist")
	if err == nil {
		found, err = selected(found, c.filters(), imageXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	if owners := c.form.strs("Owner"); len(owners) > 0 {
		found = slices.DeleteFunc(slices.Clone(found), func(i imageXML) bool {
			return !slices.Contains(owners, i.OwnerID) && !slices.Contains(owners, i.OwnerAlias) // none is the account's own
		})
	}
	found, next, err := pageOf(c, found, 1000, imageXML.id)
	return imagesAnswer{Images: set[imageXML]{Items: found}, NextToken: next}, err
}
