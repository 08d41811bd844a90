package migrate

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"strings"
)

// launchTemplate is a version of a launch template, or its predecessor in Auto Scaling, a launch configuration.
type launchTemplate struct {
	data          map[string]any
	id            string
	name          string
	number        string
	configuration bool
	fields        *fields
}

type launchTemplates []*launchTemplate

func (ts *launchTemplates) read(f *fields) {
	t := &launchTemplate{
		id: text(f.take("LaunchTemplateId")), name: text(f.take("LaunchTemplateName")),
		number: text(f.take("VersionNumber")), data: child(f.value, "LaunchTemplateData"),
		fields: f.object("LaunchTemplateData"),
	}
	*ts = append(*ts, t)
	if text(f.take("DefaultVersion")) == "true" {
		defaults := *t
		defaults.number = "$Default"
		*ts = append(*ts, &defaults)
	}
}

func (ts *launchTemplates) readConfiguration(f *fields) {
	maps.DeleteFunc(f.value, func(_ string, v any) bool { // the CLI prints "" and [] for unset fields
		list, _ := v.([]any)
		return v == "" || list != nil && len(list) == 0
	})
	*ts = append(*ts, &launchTemplate{
		configuration: true, name: text(f.take("LaunchConfigurationName")), data: f.value, fields: f,
	})
}

// version returns a version of a launch template by ID or name. Without a number, or for the latest, it returns the
// last that was read.
func (ts launchTemplates) version(id, name, version string) (found *launchTemplate) {
	for _, t := range ts {
		if t.configuration || id != "" && t.id != id || id == "" && (name == "" || t.name != name) {
			continue
		}
		if version == "" || version == "$Latest" || version == t.number {
			found = t
		}
	}
	return found
}

// configurationOf returns the launch configuration with a name, or nil.
func (ts launchTemplates) configurationOf(name string) *launchTemplate {
	for _, t := range ts {
		if t.configuration && t.name == name {
			return t
		}
	}
	return nil
}

// userData returns the template's user data as text.
func (t *launchTemplate) userData() string {
	raw := text(t.data["UserData"])
	if b, err := base64.StdEncoding.DecodeString(raw); err == nil {
		return string(b)
	}
	return raw
}

// launch reads what a launch template or launch configuration says about instances. Their user data makes them join,
// so the family is Custom, which leaves user data unchanged; unless EKS adds to it what makes them join: then the
// group's family does, with the labels and taints of the NodePool and the class's settings of the kubelet, which user
// data must not contradict.
func (g *group) launch(t *launchTemplate, joined bool) {
	f := g.toClass(t.fields)
	if one := text(t.data["InstanceType"]); one != "" && len(g.types)+len(g.requirements) == 0 {
		g.toPool(f).move("InstanceType", templateSpec+"requirements")
		g.types = []string{one}
	}
	if len(g.types)+len(g.requirements) == 0 {
		g.attributes(g.toPool(f).object("InstanceRequirements"))
	}
	f.taken["InstanceType"], f.taken["InstanceRequirements"] = true, true
	image := text(f.move("ImageId", "spec.amiSelectorTerms"))
	g.class["amiFamily"] = "Custom"
	if parameter, ok := strings.CutPrefix(image, "resolve:ssm:"); ok {
		g.class["amiSelectorTerms"] = []any{map[string]any{"ssmParameter": parameter}}
	} else {
		g.class["amiSelectorTerms"] = []any{map[string]any{"id": image}}
	}
	switch userData := t.userData(); {
	case userData != "":
		rest := readUserData(g, f, userData)
		if !joined {
			rest = userData
		}
		if f.take("UserData"); rest != "" {
			f.note(Mapped, "UserData", "spec.userData", "")
			g.class["userData"] = rest
		}
	case !joined:
		f.note(Warning, "UserData", "spec.userData",
			"without user data, nodes of this image may be unable to join the cluster")
	}
	if t.configuration {
		g.launchConfigured(f)
	} else {
		g.launchTemplated(f)
	}
	g.launchOptions(f)
	f.dropAll(map[string]string{
		"KeyName":             "instances are reached by Session Manager; keys are a matter of the image or user data",
		"CreditSpecification": "EC2NodeClasses leave it to the account's default",
		"EbsOptimized":        "instances are EBS-optimised where their type can be",
	})
	f.rest()
}

// launchTemplated reads what only launch templates have.
func (g *group) launchTemplated(f *fields) {
	profile := f.object("IamInstanceProfile")
	for _, key := range []string{"Name", "Arn"} {
		if v := text(profile.move(key, "spec.instanceProfile")); v != "" {
			g.class["instanceProfile"] = path.Base(v)
		}
	}
	g.securityGroups(f, "SecurityGroupIds")
	for i, v := range f.list("NetworkInterfaces") {
		n := f.within(fmt.Sprintf("NetworkInterfaces[%d]", i), v)
		n.take("DeviceIndex")
		if i == 0 {
			g.securityGroups(n, "Groups")
			g.publicAddresses(n)
		}
	}
	g.monitoring(f, "Monitoring")
	placement(g, f.object("Placement"))
	if v, ok := f.value["InstanceMarketOptions"].(map[string]any); ok && v["MarketType"] == "spot" {
		g.spot()
		g.toPool(f).move("InstanceMarketOptions", templateSpec+"requirements")
	}
}

// launchConfigured reads what launch configurations have in another form.
func (g *group) launchConfigured(f *fields) {
	for _, key := range []string{"LaunchConfigurationARN", "CreatedTime"} {
		f.take(key)
	}
	if v := text(f.move("IamInstanceProfile", "spec.instanceProfile")); v != "" {
		g.class["instanceProfile"] = path.Base(v)
	}
	g.securityGroups(f, "SecurityGroups")
	g.publicAddresses(f)
	g.monitoring(f, "InstanceMonitoring")
	if text(f.value["SpotPrice"]) != "" {
		g.spot()
		g.toPool(f).note(Approximated, "SpotPrice", templateSpec+"requirements",
			"its nodes are spot instances, at the market's price")
		f.taken["SpotPrice"] = true
	}
	tenancy(g, f, "PlacementTenancy")
}

// placement reads in which placement group instances run, and on whose hardware.
func placement(g *group, f *fields) {
	placementGroup(g, f, "GroupName", "name")
	placementGroup(g, f, "GroupId", "id")
	tenancy(g, f, "Tenancy")
	f.drop("AvailabilityZone", "the group's subnets decide")
	f.leave("a NodePool does not choose it for its instances")
}

// placementGroup reads the name or the ID of a placement group.
func placementGroup(g *group, f *fields, key, by string) {
	if v := text(f.value[key]); v != "" {
		f.move(key, "spec.placementGroupSelector."+by)
		g.class["placementGroupSelector"] = map[string]any{by: v}
	}
	f.taken[key] = true
}

// tenancy reads whether instances share their hardware with those of other accounts.
func tenancy(g *group, f *fields, key string) {
	switch text(f.take(key)) {
	case "", "default":
	case "dedicated":
		g.dedicated = true
		g.requirements = append(g.requirements, requirement(classGroup+"/instance-tenancy", "In", "dedicated"))
		g.toPool(f).note(Mapped, key, templateSpec+"requirements", "")
	default:
		g.toPool(f).note(Dropped, key, "", "NodePools launch no instances on Dedicated Hosts")
	}
}

func (g *group) securityGroups(f *fields, key string) {
	g.terms("securityGroupSelectorTerms", texts(listOf(f.move(key, "spec.securityGroupSelectorTerms")))...)
}

func (g *group) publicAddresses(f *fields) {
	if public := f.move("AssociatePublicIpAddress", "spec.associatePublicIPAddress"); public != nil {
		g.class["associatePublicIPAddress"] = public
	}
}

func (g *group) monitoring(f *fields, key string) {
	if v := f.object(key).move("Enabled", "spec.detailedMonitoring"); v != nil {
		g.class["detailedMonitoring"] = v
	}
}

func (g *group) launchOptions(f *fields) {
	options := f.object("MetadataOptions")
	tokens, hops := "optional", 1 // EC2's defaults
	if v := text(options.move("HttpTokens", "spec.metadataOptions.httpTokens")); v != "" {
		tokens = v
	}
	if n := options.whole("HttpPutResponseHopLimit"); n > 0 {
		hops = n
		options.note(Mapped, "HttpPutResponseHopLimit", "spec.metadataOptions.httpPutResponseHopLimit", "")
	}
	g.metadata(tokens, hops)
	for _, o := range [][2]string{{"HttpEndpoint", "httpEndpoint"}, {"HttpProtocolIpv6", "httpProtocolIPv6"}} {
		key, to := o[0], o[1]
		if v := options.move(key, "spec.metadataOptions."+to); v != nil {
			set(g.class, v, "metadataOptions", to)
		}
	}
	var mappings []any
	for i, v := range f.list("BlockDeviceMappings") {
		b := f.within(fmt.Sprintf("BlockDeviceMappings[%d]", i), v)
		if b.value["Ebs"] == nil {
			b.dropAll(map[string]string{
				"VirtualName": "set spec.instanceStorePolicy to have instance stores used",
				"NoDevice":    "EC2NodeClasses cannot leave out a device of the image",
			})
			b.take("DeviceName")
			continue
		}
		ebs := b.object("Ebs").volume(map[string]string{
			"VolumeSize": "volumeSize", "VolumeType": "volumeType", "Iops": "iops", "Throughput": "throughput",
			"Encrypted": "encrypted", "KmsKeyId": "kmsKeyID", "SnapshotId": "snapshotID",
			"DeleteOnTermination": "deleteOnTermination",
		})
		mappings = append(mappings, map[string]any{"deviceName": text(b.take("DeviceName")), "ebs": ebs})
	}
	if mappings != nil {
		g.class["blockDeviceMappings"] = mappings
		if !markRoot(g, "/dev/xvda") && !markRoot(g, "/dev/sda1") && len(mappings) == 1 {
			mappings[0].(map[string]any)["rootVolume"] = true
		}
	}
	for i, v := range f.list("TagSpecifications") {
		s := f.within(fmt.Sprintf("TagSpecifications[%d]", i), v)
		if text(s.take("ResourceType")) != "instance" {
			s.drop("Tags", "volumes and network interfaces have the tags of their instance")
			continue
		}
		for j, v := range s.list("Tags") {
			t, _ := v.(map[string]any)
			g.tag(s, fmt.Sprintf("Tags[%d]", j), text(t["Key"]), text(t["Value"]))
		}
	}
}

// markRoot marks the volume that holds container images and pod logs by its device name, and only that one. It reports
// whether there is one.
func markRoot(g *group, device string) (found bool) {
	for _, v := range listOf(g.class["blockDeviceMappings"]) {
		m := v.(map[string]any)
		delete(m, "rootVolume")
		if text(m["deviceName"]) == device {
			m["rootVolume"], found = true, true
		}
	}
	return found
}
