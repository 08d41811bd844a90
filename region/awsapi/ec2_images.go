package awsapi

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/region"
)

type imageXML struct {
	ImageID            string      `xml:"imageId" filter:"image-id"`
	ImageLocation      string      `xml:"imageLocation"`
	State              string      `xml:"imageState" filter:"state"`
	OwnerID            string      `xml:"imageOwnerId" filter:"owner-id"`
	OwnerAlias         string      `xml:"imageOwnerAlias,omitempty" filter:"owner-alias"`
	IsPublic           bool        `xml:"isPublic" filter:"is-public"`
	Architecture       string      `xml:"architecture" filter:"architecture"`
	ImageType          string      `xml:"imageType" filter:"image-type"`
	Name               string      `xml:"name" filter:"name"`
	Description        string      `xml:"description" filter:"description"`
	CreationDate       string      `xml:"creationDate" filter:"creation-date"`
	DeprecationTime    string      `xml:"deprecationTime,omitempty"`
	RootDeviceType     string      `xml:"rootDeviceType" filter:"root-device-type"`
	RootDeviceName     string      `xml:"rootDeviceName"`
	VirtualizationType string      `xml:"virtualizationType" filter:"virtualization-type"`
	Hypervisor         string      `xml:"hypervisor" filter:"hypervisor"`
	ENASupport         bool        `xml:"enaSupport" filter:"ena-support"`
	PlatformDetails    string      `xml:"platformDetails"`
	TagSet             set[tagXML] `xml:"tagSet" filter:"tag"`
}

// imageLife is how long after its making EKS deprecates an image.
const imageLife = 2 * 365 * 24 * time.Hour

func imageOf(i region.Image) imageXML {
	return imageXML{
		ImageID: i.ID, ImageLocation: "amazon/" + i.Name, State: "available", OwnerID: i.OwnerID, OwnerAlias: "amazon",
		IsPublic:     true,
		Architecture: i.Architecture, ImageType: "machine", Name: i.Name, Description: i.Description,
		CreationDate:    stamp(i.Created),
		DeprecationTime: stamp(i.Created.Add(imageLife)), RootDeviceType: "ebs", RootDeviceName: i.RootDevice,
		VirtualizationType: "hvm",
		Hypervisor:         "xen", ENASupport: true, PlatformDetails: "Linux/UNIX", TagSet: tagsOf(i.Tags),
	}
}

// describeImages leaves out deprecated images unless they are asked for by id or in so many words, as EC2 does.
func describeImages(c *call) (any, error) {
	available, now := c.region.Images(), c.region.Now()
	if !c.form.boolean("IncludeDeprecated") && !c.form.has("ImageId") {
		available = slices.DeleteFunc(available, func(i region.Image) bool { return now.After(i.Created.Add(imageLife)) })
	}
	all := setOf(available, imageOf).Items
	id := func(i imageXML) string { return i.ImageID }
	found, err := chosenFrom(c, all,
		naming[imageXML]{"ImageId", "InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id})
	if err != nil {
		return nil, err
	}
	if owners := c.form.strs("Owner"); len(owners) > 0 {
		found = slices.DeleteFunc(slices.Clone(found), func(i imageXML) bool {
			return !slices.Contains(owners, i.OwnerID) && !slices.Contains(owners, i.OwnerAlias) // none is the account's own
		})
	}
	return paged(c, "imagesSet", found, 1000, id)
}
