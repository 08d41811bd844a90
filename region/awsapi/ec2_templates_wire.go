package awsapi

import (
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/region"
)

type templateXML struct {
	ID        string      `xml:"launchTemplateId"`
	Name      string      `xml:"launchTemplateName" filter:"launch-template-name"`
	CreatedAt string      `xml:"createTime" filter:"create-time"`
	CreatedBy string      `xml:"createdBy"`
	Default   int         `xml:"defaultVersionNumber"`
	Latest    int         `xml:"latestVersionNumber"`
	TagSet    set[tagXML] `xml:"tagSet" filter:"tag"`
}

type templateAnswer struct {
	Template templateXML `xml:"launchTemplate"`
}

func templateOf(t region.LaunchTemplate) templateXML {
	return templateXML{
		ID: t.ID, Name: t.Name, CreatedAt: stamp(t.CreatedAt), CreatedBy: t.CreatedBy, Default: t.Default,
		Latest: len(t.Versions), TagSet: tagsOf(t.Tags),
	}
}

type versionXML struct {
	ID          string          `xml:"launchTemplateId"`
	Name        string          `xml:"launchTemplateName"`
	Number      int             `xml:"versionNumber"`
	Description string          `xml:"versionDescription,omitempty"`
	CreatedAt   string          `xml:"createTime" filter:"create-time"`
	CreatedBy   string          `xml:"createdBy"`
	Default     bool            `xml:"defaultVersion" filter:"is-default-version"`
	Data        templateDataXML `xml:"launchTemplateData" filter:"."`
}

// templateDataXML is what a template's client reads back. Empty fields were not in the request.
type templateDataXML struct {
	ImageID        string                    `xml:"imageId,omitempty" filter:"image-id"`
	InstanceType   string                    `xml:"instanceType,omitempty" filter:"instance-type"`
	UserData       string                    `xml:"userData,omitempty"`
	EBSOptimized   string                    `xml:"ebsOptimized,omitempty"`
	KeyName        string                    `xml:"keyName,omitempty"`
	Profile        *profileNameXML           `xml:"iamInstanceProfile" filter:"."`
	Monitoring     *enabledXML               `xml:"monitoring"`
	Metadata       *metadataOptionsXML       `xml:"metadataOptions"`
	SecurityGroups *set[string]              `xml:"securityGroupIdSet"`
	Interfaces     *set[templateNICXML]      `xml:"networkInterfaceSet"`
	Disks          *set[diskMappingXML]      `xml:"blockDeviceMappingSet"`
	Tags           *set[tagSpecificationXML] `xml:"tagSpecificationSet"`
}

type profileNameXML struct {
	Name string `xml:"name" filter:"iam-instance-profile"`
}

type enabledXML struct {
	Enabled string `xml:"enabled"`
}

type metadataOptionsXML struct {
	Endpoint string `xml:"httpEndpoint,omitempty"`
	IPv6     string `xml:"httpProtocolIpv6,omitempty"`
	HopLimit string `xml:"httpPutResponseHopLimit,omitempty"`
	Tokens   string `xml:"httpTokens,omitempty"`
	Tags     string `xml:"instanceMetadataTags,omitempty"`
	State    string `xml:"state"`
}

type templateNICXML struct {
	DeviceIndex         string    `xml:"deviceIndex,omitempty"`
	CardIndex           string    `xml:"networkCardIndex,omitempty"`
	Type                string    `xml:"interfaceType,omitempty"`
	SubnetID            string    `xml:"subnetId,omitempty"`
	AssociatePublicIP   string    `xml:"associatePublicIpAddress,omitempty"`
	DeleteOnTermination string    `xml:"deleteOnTermination,omitempty"`
	Groups              groupsXML `xml:"groupSet"`
}

// groupsXML is a list of security groups within a network interface of a template.
type groupsXML struct {
	IDs []string `xml:"groupId"`
}

type diskMappingXML struct {
	DeviceName string   `xml:"deviceName"`
	EBS        *diskEBS `xml:"ebs"`
}

type diskEBS struct {
	DeleteOnTermination string `xml:"deleteOnTermination,omitempty"`
	Encrypted           string `xml:"encrypted,omitempty"`
	IOPS                string `xml:"iops,omitempty"`
	KMSKeyID            string `xml:"kmsKeyId,omitempty"`
	SnapshotID          string `xml:"snapshotId,omitempty"`
	Throughput          string `xml:"throughput,omitempty"`
	Size                string `xml:"volumeSize,omitempty"`
	Type                string `xml:"volumeType,omitempty"`
}

type tagSpecificationXML struct {
	ResourceType string      `xml:"resourceType"`
	TagSet       set[tagXML] `xml:"tagSet"`
}

func versionOf(t region.LaunchTemplate, n int) versionXML {
	d := t.Versions[n-1]
	return versionXML{
		ID: t.ID, Name: t.Name, Number: n, Description: d.Description, CreatedAt: stamp(t.CreatedAt), CreatedBy: t.CreatedBy,
		Default: n == t.Default, Data: templateDataOf(d),
	}
}

func templateDataOf(d region.TemplateData) templateDataXML {
	values := url.Values{}
	for k, v := range d.Raw {
		values.Set(k, v)
	}
	raw := newForm(values)
	x := templateDataXML{
		ImageID: d.ImageID, InstanceType: d.InstanceType, UserData: base64.StdEncoding.EncodeToString(d.UserData),
		EBSOptimized: raw.str("EbsOptimized"), KeyName: raw.str("KeyName"), Metadata: raw.metadataOptions(),
		Interfaces: orNil(setOf(raw.each("NetworkInterface"), form.templateNIC)),
		Disks:      orNil(setOf(raw.each("BlockDeviceMapping"), form.diskMapping)),
		Tags: orNil(setOf(slices.Sorted(maps.Keys(d.Tags)), func(kind string) tagSpecificationXML {
			return tagSpecificationXML{ResourceType: kind, TagSet: tagsOf(d.Tags[kind])}
		})),
	}
	if x.Interfaces == nil {
		x.SecurityGroups = orNil(items(d.SecurityGroupIDs...))
	}
	if d.InstanceProfile != "" {
		x.Profile = &profileNameXML{Name: d.InstanceProfile}
	}
	if raw.has("Monitoring") {
		x.Monitoring = &enabledXML{Enabled: strconv.FormatBool(raw.at("Monitoring").boolean("Enabled"))}
	}
	return x
}

// orNil is nil for an empty list, which is then not written at all.
func orNil[T any](s set[T]) *set[T] {
	if len(s.Items) == 0 {
		return nil
	}
	return &s
}

func (f form) metadataOptions() *metadataOptionsXML {
	if !f.has("MetadataOptions") {
		return nil
	}
	o := f.at("MetadataOptions")
	return &metadataOptionsXML{
		Endpoint: o.str("HttpEndpoint"), IPv6: o.str("HttpProtocolIpv6"), HopLimit: o.str("HttpPutResponseHopLimit"),
		Tokens: o.str("HttpTokens"),
		Tags:   o.str("InstanceMetadataTags"), State: "applied",
	}
}

func (f form) templateNIC() templateNICXML {
	return templateNICXML{
		DeviceIndex: f.str("DeviceIndex"), CardIndex: f.str("NetworkCardIndex"), Type: f.str("InterfaceType"),
		SubnetID:          f.str("SubnetId"),
		AssociatePublicIP: f.str("AssociatePublicIpAddress"), DeleteOnTermination: f.str("DeleteOnTermination"),
		Groups: groupsXML{IDs: f.strs("SecurityGroupId")},
	}
}

func (f form) diskMapping() diskMappingXML {
	x, ebs := diskMappingXML{DeviceName: f.str("DeviceName")}, f.at("Ebs")
	if f.has("Ebs") {
		x.EBS = &diskEBS{
			DeleteOnTermination: ebs.str("DeleteOnTermination"), Encrypted: ebs.str("Encrypted"), IOPS: ebs.str("Iops"),
			KMSKeyID:   ebs.str("KmsKeyId"),
			SnapshotID: ebs.str("SnapshotId"), Throughput: ebs.str("Throughput"), Size: ebs.str("VolumeSize"),
			Type: ebs.str("VolumeType"),
		}
	}
	return x
}
