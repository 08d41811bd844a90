package awsapi

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// maxUserData is EC2's limit before encoding (EC2 user guide, "Run commands when you launch an EC2 instance with user
// data input").
const maxUserData = 16 << 10

// userData decodes UserData, in any of the paddings that clients send.
func (f form) userData() []byte {
	text := f.str("UserData")
	if text == "" {
		return nil
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("\n", "", "\r",
		"").Replace(text), "="))
	if err != nil && *f.err == nil {
		*f.err = failure(400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data: "+err.Error())
	}
	if len(data) > maxUserData && *f.err == nil {
		*f.err = failure(400, "InvalidParameterValue", fmt.Sprintf("User data is limited to %d bytes", maxUserData))
	}
	return data
}

// profileName is the name of the instance profile that IamInstanceProfile names, or whose ARN it gives.
func (f form) profileName() string {
	profile := f.at("IamInstanceProfile")
	arn := profile.str("Arn")
	return cmp.Or(profile.str("Name"), arn[strings.LastIndex(arn, "/")+1:])
}

// templateData reads what launch templates and RunInstances say of instances. An interface's security groups are the
// instance's where that names none itself.
func (f form) templateData() region.TemplateData {
	d := region.TemplateData{
		ImageID: f.str("ImageId"), InstanceType: f.str("InstanceType"), UserData: f.userData(),
		InstanceProfile:  f.profileName(),
		SecurityGroupIDs: f.strs("SecurityGroupId"),
	}
	for _, i := range f.each("NetworkInterface") {
		if d.SecurityGroupIDs == nil {
			d.SecurityGroupIDs = i.strs("SecurityGroupId")
		}
	}
	d.Monitoring = f.at("Monitoring").boolean("Enabled")
	for _, m := range f.each("BlockDeviceMapping") {
		if ebs := m.at("Ebs"); m.has("Ebs") {
			d.Devices = append(d.Devices, region.BlockDevice{
				Name: m.str("DeviceName"), SizeGiB: int64(ebs.integer("VolumeSize")),
				Keep:   strings.EqualFold(ebs.str("DeleteOnTermination"), "false"),
				KMSKey: ebs.str("KmsKeyId"),
			})
		}
	}
	for _, s := range f.tagSpecifications() {
		if d.Tags == nil {
			d.Tags = map[string]map[string]string{}
		}
		d.Tags[s.resourceType] = s.tags
	}
	return d
}

// understood are the parameters of template data that templateData reads whole.
var understood = []string{
	"ImageId", "InstanceType", "UserData", "IamInstanceProfile", "SecurityGroupId",
	"TagSpecification",
}

// rest is the parameters of template data that templateData does not keep.
func (f form) rest() map[string]string {
	raw := map[string]string{}
	for k, v := range f.values {
		name, ok := strings.CutPrefix(k, f.prefix)
		first, _, _ := strings.Cut(name, ".")
		if ok && len(v) > 0 && !slices.Contains(understood, first) {
			raw[name] = v[0]
		}
	}
	return raw
}

func createLaunchTemplate(c *call) (any, error) {
	c.form.require("LaunchTemplateName", "LaunchTemplateData")
	content := c.form.at("LaunchTemplateData")
	data := content.templateData()
	data.Raw, data.Description = content.rest(), c.form.str("VersionDescription")
	tags := c.form.tagsFor("launch-template")
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	t, err := c.region.CreateLaunchTemplate(c.form.str("LaunchTemplateName"), data, tags)
	return templateAnswer{Template: templateOf(t)}, err
}

func deleteLaunchTemplate(c *call) (any, error) {
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	t, err := c.region.DeleteLaunchTemplate(c.form.str("LaunchTemplateId"), c.form.str("LaunchTemplateName"))
	return templateAnswer{Template: templateOf(t)}, err
}

func describeLaunchTemplates(c *call) (any, error) {
	all := setOf(c.region.LaunchTemplates(), templateOf).Items
	id := func(t templateXML) string { return t.ID }
	return described(c, "launchTemplates", all, 200, id,
		naming[templateXML]{
			"LaunchTemplateId", "InvalidLaunchTemplateId.NotFound",
			"The specified launch template, with template ID %s, does not exist.", id,
		},
		naming[templateXML]{
			"LaunchTemplateName", "InvalidLaunchTemplateName.NotFoundException",
			"At least one of the launch templates specified in the request does not exist: %s",
			func(t templateXML) string { return t.Name },
		})
}

// describeLaunchTemplateVersions answers with the versions of one template, or $Latest or $Default of all.
func describeLaunchTemplateVersions(c *call) (any, error) {
	id, name, wanted := c.form.str("LaunchTemplateId"), c.form.str("LaunchTemplateName"),
		c.form.strs("LaunchTemplateVersion")
	templates := c.region.LaunchTemplates()
	if id != "" || name != "" {
		t, err := c.region.LaunchTemplate(id, name)
		if err != nil {
			return nil, err
		}
		templates = []region.LaunchTemplate{t}
	} else if len(wanted) == 0 {
		return nil, failure(400, "MissingParameter",
			"The request must name a launch template by id or name, or ask for version $Latest or $Default of all")
	}
	low, high := c.form.integer("MinVersion"), c.form.integer("MaxVersion")
	var found []versionXML
	for _, t := range templates {
		versions, err := wantedVersions(t, wanted)
		if err != nil {
			return nil, err
		}
		for _, n := range versions {
			if n >= low && (high == 0 || n <= high) {
				found = append(found, versionOf(t, n))
			}
		}
	}
	return described(c, "launchTemplateVersionSet", found, 200,
		func(v versionXML) string { return fmt.Sprintf("%s/%09d", v.ID, v.Number) })
}

// wantedVersions are the numbers of the versions that are asked for; all if none is.
func wantedVersions(t region.LaunchTemplate, wanted []string) ([]int, error) {
	var numbers []int
	for n := range t.Versions {
		if len(wanted) == 0 {
			numbers = append(numbers, n+1)
		}
	}
	for _, v := range wanted {
		n, err := t.Default, error(nil)
		switch v {
		case "$Default":
		case "$Latest":
			n = len(t.Versions)
		default:
			n, err = strconv.Atoi(v)
		}
		if err != nil || n < 1 || n > len(t.Versions) {
			return nil, failure(400, "InvalidLaunchTemplateId.VersionNotFound",
				"Could not find launch template version "+v+" of "+t.Name)
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// runInstances reads its instances' data like a template's; what it leaves open comes from the template it names.
func runInstances(c *call) (any, error) {
	f := c.form
	f.require("MinCount", "MaxCount")
	q := region.RunRequest{
		ClientToken: f.str("ClientToken"), Data: f.templateData(), Min: f.integer("MinCount"), Max: f.integer("MaxCount"),
		CapacityType: region.OnDemand, Tags: f.tagsFor("instance"), Override: f.override(f.at("LaunchTemplate")),
	}
	q.Override.Zone = f.at("Placement").str("AvailabilityZone")
	for _, i := range f.each("NetworkInterface") {
		q.Override.SubnetID = cmp.Or(q.Override.SubnetID, i.str("SubnetId"))
	}
	switch market := f.at("InstanceMarketOptions"); market.str("MarketType") {
	case "":
	case region.Spot:
		q.CapacityType = region.Spot
	default:
		market.bad("MarketType", "spot")
	}
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	launched, err := c.region.RunInstances(q)
	if err != nil || len(launched) == 0 {
		return nil, cmp.Or(err, error(failure(500, "InternalError", "No instance of this client token is left")))
	}
	return reservationXML{
		ReservationID: "r-" + launched[0].ID[2:], OwnerID: region.AccountID,
		Instances: setOf(launched, c.surroundings().instance),
	}, nil
}
