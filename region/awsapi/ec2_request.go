package awsapi

import (
	"cmp"

	"github.com/nodeless/nodeless/region"
)

// What the launching calls ask for, read from the wire. EC2 names the members of lists in the singular
// (TagSpecification.1.Tag.1.Key) but the overrides of a fleet in the plural, as its clients send them.

// tagSpecification is tags for one kind of resource that a call creates.
type tagSpecification struct {
	resourceType string
	tags         map[string]string
}

func (f form) tagSpecifications() []tagSpecification {
	var list []tagSpecification
	for _, s := range f.each("TagSpecification") {
		list = append(list, tagSpecification{resourceType: s.str("ResourceType"), tags: s.tags("Tag")})
	}
	return list
}

// tagsFor is the tags that the specifications give to one kind of resource.
func (f form) tagsFor(resourceType string) map[string]string {
	tags := map[string]string{}
	for _, s := range f.tagSpecifications() {
		if s.resourceType != resourceType {
			continue
		}
		for k, v := range s.tags {
			tags[k] = v
		}
	}
	return tags
}

// tags reads a list of keys and values.
func (f form) tags(name string) map[string]string {
	tags := map[string]string{}
	for _, t := range f.each(name) {
		t.require("Key")
		tags[t.str("Key")] = t.str("Value")
	}
	return tags
}

// override reads where and what to launch; the template is named elsewhere in the form.
func (f form) override(template form) region.Override {
	return region.Override{
		TemplateID: template.str("LaunchTemplateId"), TemplateName: template.str("LaunchTemplateName"),
		TemplateVersion: template.str("Version"),
		InstanceType:    f.str("InstanceType"), SubnetID: f.str("SubnetId"), ImageID: f.str("ImageId"),
		Zone: f.str("AvailabilityZone"), Priority: f.number("Priority"),
	}
}

// fleet reads CreateFleet's form. A configuration without overrides launches what its template says.
func (f form) fleet() region.FleetRequest {
	f.require("LaunchTemplateConfigs", "TargetCapacitySpecification.TotalTargetCapacity")
	target, options := f.at("TargetCapacitySpecification"), f.at("OnDemandOptions")
	q := region.FleetRequest{
		ClientToken: f.str("ClientToken"), Total: target.integer("TotalTargetCapacity"),
		CapacityType: cmp.Or(target.str("DefaultTargetCapacityType"), region.OnDemand),
		InstanceTags: f.tagsFor("instance"), FleetTags: f.tagsFor("fleet"),
	}
	if q.CapacityType == region.Spot {
		options = f.at("SpotOptions")
	}
	q.Strategy = options.str("AllocationStrategy")
	if f.str("Type") != "instant" {
		f.bad("Type", "instant, the one type of fleet the simulated region serves")
	}
	for _, name := range []string{"MinTargetCapacity", "SingleInstanceType", "SingleAvailabilityZone"} {
		if s := options.str(name); s != "" && s != "0" && s != "false" {
			options.bad(name, "none: the simulated region does not serve it")
		}
	}
	for _, config := range f.each("LaunchTemplateConfigs") {
		template, overrides := config.at("LaunchTemplateSpecification"), config.each("Overrides")
		if len(overrides) == 0 {
			q.Overrides = append(q.Overrides, config.at("None").override(template))
		}
		for _, o := range overrides {
			q.Overrides = append(q.Overrides, o.override(template))
		}
	}
	return q
}
