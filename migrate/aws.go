package migrate

import (
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
)

// What the AWS CLI prints: the fields are those of the APIs of EC2 Auto Scaling (DescribeAutoScalingGroups), EC2
// (DescribeLaunchTemplateVersions) and EKS (DescribeNodegroup, DescribeFargateProfile).

// launchTemplate is a version of a launch template.
type launchTemplate struct {
	data   map[string]any
	id     string
	name   string
	number string
	fields *fields
}

func (m *migration) launchTemplate(d *document) {
	f := d.fields(&m.notes)
	t := &launchTemplate{
		id: text(f.take("LaunchTemplateId")), name: text(f.take("LaunchTemplateName")),
		number: text(f.take("VersionNumber")), data: child(d.object, "LaunchTemplateData"),
		fields: f.object("LaunchTemplateData"),
	}
	m.templates = append(m.templates, t)
	if text(f.take("DefaultVersion")) == "true" {
		defaults := *t
		defaults.number = "$Default"
		m.templates = append(m.templates, &defaults)
	}
}

// template returns a version of a launch template by ID or name. Of one without a number, or of the latest, the last
// that was read.
func (m *migration) template(id, name, version string) (found *launchTemplate) {
	for _, t := range m.templates {
		if id != "" && t.id != id || id == "" && (name == "" || t.name != name) {
			continue
		}
		if version == "" || version == "$Latest" || version == t.number {
			found = t
		}
	}
	return found
}

// userData returns the template's user data as text.
func (t *launchTemplate) userData() string {
	raw := text(t.data["UserData"])
	if b, err := base64.StdEncoding.DecodeString(raw); err == nil {
		return string(b)
	}
	return raw
}

func (m *migration) autoScalingGroup(d *document) {
	f := d.fields(&m.notes)
	name := text(f.take("AutoScalingGroupName"))
	tags := listOf(f.take("Tags"))
	if managed := tagOf(tags, "eks:nodegroup-name"); managed != "" {
		f.note(Dropped, "Tags", "", "it belongs to the managed node group "+managed+": add the output of: aws eks "+
			"describe-nodegroup --nodegroup-name "+managed)
		return
	}
	g := m.newGroup(d, name, f)
	f, pool := g.pool, g.pool
	g.weight = m.priorities.weight(name)
	g.size(f, "MinSize", "MaxSize", "DesiredCapacity")
	g.zones = texts(listOf(pool.move("AvailabilityZones", templateSpec+"requirements")))
	if len(g.zones) > 0 {
		g.region = regionOf(g.zones[0])
	}
	g.terms("subnetSelectorTerms", commas(text(g.toClass(f).move("VPCZoneIdentifier", "spec.subnetSelectorTerms")))...)
	for i, v := range tags {
		t, _ := v.(map[string]any)
		g.autoScalingTag(f, fmt.Sprintf("Tags[%d]", i), text(t["Key"]), text(t["Value"]), t["PropagateAtLaunch"] == true)
	}
	if n := f.whole("MaxInstanceLifetime"); n > 0 { // seconds
		g.expireAfter = duration(n)
		pool.note(Mapped, "MaxInstanceLifetime", templateSpec+"expireAfter", "")
	}
	m.autoScalingTemplate(f, g)
	if f.take("CapacityRebalance") == true {
		f.note(Dropped, "CapacityRebalance", "", "run the controller with --interruption-queue")
	}
	if f.take("NewInstancesProtectedFromScaleIn") == true {
		f.note(Dropped, "NewInstancesProtectedFromScaleIn", "",
			"annotate nodes or pods with karpenter.sh/do-not-disrupt")
	}
	for _, key := range []string{"TargetGroupARNs", "LoadBalancerNames", "SuspendedProcesses", "WarmPoolConfiguration"} {
		if v := f.take(key); v != nil && len(listOf(v)) > 0 {
			f.note(Dropped, key, "", "there is no Auto Scaling group to do it")
		}
	}
	m.addGroup(g) // what is left of it is the group's state, or about how the group itself works
}

func tagOf(tags []any, key string) string {
	for _, v := range tags {
		if t, _ := v.(map[string]any); text(t["Key"]) == key {
			return text(t["Value"])
		}
	}
	return ""
}

const nodeTemplate = "k8s.io/cluster-autoscaler/node-template/"

// autoScalingTag takes a tag: some tell Cluster Autoscaler what nodes look like, the others are those of instances.
func (g *group) autoScalingTag(f *fields, field, key, value string, instances bool) {
	if label, ok := strings.CutPrefix(key, nodeTemplate+"label/"); ok {
		g.label(g.toPool(f), field, label, value)
	} else if k, ok := strings.CutPrefix(key, nodeTemplate+"taint/"); ok {
		v, effect, _ := strings.Cut(value, ":")
		g.taints = append(g.taints, taint(k, v, effect))
		g.toPool(f).note(Mapped, field, templateSpec+"taints", "")
	} else if strings.HasPrefix(key, "k8s.io/cluster-autoscaler/") {
		f.note(Dropped, field, "", key+" is for Cluster Autoscaler")
	} else if instances {
		g.tag(g.toClass(f), field, key, value)
	}
}

// autoScalingTemplate takes the launch template, and the types and shares of a mixed instances policy.
func (m *migration) autoScalingTemplate(f *fields, g *group) {
	spec := f.object("LaunchTemplate")
	if mixed := f.object("MixedInstancesPolicy"); mixed.value != nil {
		inner := mixed.object("LaunchTemplate")
		spec = inner.object("LaunchTemplateSpecification")
		g.overrides(inner)
		g.distribution(mixed.object("InstancesDistribution"), "OnDemandBaseCapacity",
			"OnDemandPercentageAboveBaseCapacity")
	}
	id, version := text(spec.take("LaunchTemplateId")), text(spec.take("Version"))
	t := m.template(id, text(spec.take("LaunchTemplateName")), version)
	switch {
	case t == nil && f.take("LaunchConfigurationName") != nil:
		f.note(Failed, "LaunchConfigurationName", "", "launch configurations are not read: make a launch template of it, as "+
			"AWS advises, and migrate the group with that")
		return
	case t == nil:
		f.note(Failed, "LaunchTemplate", "", "it says what instances run: add the output of: aws ec2 "+
			"describe-launch-template-versions --launch-template-id "+id+" --versions '"+version+"'")
		return
	}
	g.launch(t)
}

// overrides takes the instance types of a mixed instances policy, or what it requires of them.
func (g *group) overrides(f *fields) {
	for i, v := range f.list("Overrides") {
		o := g.toPool(f).within(fmt.Sprintf("Overrides[%d]", i), v)
		if t := text(o.move("InstanceType", templateSpec+"requirements")); t != "" {
			g.types = append(g.types, t)
		}
		o.drop("WeightedCapacity", "nodes count by their size")
		if r := o.object("InstanceRequirements"); r.value != nil {
			g.between(r.object("VCpuCount"), "instance-cpu", "Min", "Max", vcpus)
			g.between(r.object("MemoryMiB"), "instance-memory", "Min", "Max", asMiB)
			if not := texts(listOf(r.move("ExcludedInstanceTypes", templateSpec+"requirements"))); len(not) > 0 {
				g.requirements = append(g.requirements, requirement("node.kubernetes.io/instance-type", "NotIn", not...))
			}
			r.leave("add a requirement by a label of karpenter.k8s.aws, if there is one")
		}
	}
	slices.Sort(g.types)
	g.types = slices.Compact(g.types)
}

// launch takes what a launch template says of instances. Their user data make them join, so the family is Custom, which
// leaves user data alone.
func (g *group) launch(t *launchTemplate) {
	f := g.toClass(t.fields)
	if one := text(t.data["InstanceType"]); one != "" && len(g.types)+len(g.requirements) == 0 {
		g.toPool(f).move("InstanceType", templateSpec+"requirements")
		g.types = []string{one}
	}
	f.taken["InstanceType"] = true
	image := text(f.move("ImageId", "spec.amiSelectorTerms"))
	g.class["amiFamily"] = "Custom"
	if parameter, ok := strings.CutPrefix(image, "resolve:ssm:"); ok {
		g.class["amiSelectorTerms"] = []any{map[string]any{"ssmParameter": parameter}}
	} else {
		g.class["amiSelectorTerms"] = []any{map[string]any{"id": image}}
	}
	if f.move("UserData", "spec.userData") != nil {
		g.class["userData"] = t.userData()
	} else {
		f.note(Warning, "UserData", "spec.userData",
			"there are none, by which nodes of this image may not join the cluster")
	}
	profile := f.object("IamInstanceProfile")
	for _, key := range []string{"Name", "Arn"} {
		if v := text(profile.move(key, "spec.instanceProfile")); v != "" {
			g.class["instanceProfile"] = path.Base(v)
		}
	}
	g.terms("securityGroupSelectorTerms", texts(listOf(f.move("SecurityGroupIds", "spec.securityGroupSelectorTerms")))...)
	for i, v := range f.list("NetworkInterfaces") {
		n := f.within(fmt.Sprintf("NetworkInterfaces[%d]", i), v)
		n.take("DeviceIndex")
		if i == 0 {
			g.terms("securityGroupSelectorTerms", texts(listOf(n.move("Groups", "spec.securityGroupSelectorTerms")))...)
			if public := n.move("AssociatePublicIpAddress", "spec.associatePublicIPAddress"); public != nil {
				g.class["associatePublicIPAddress"] = public
			}
		}
	}
	g.launchOptions(f)
	if v, ok := t.data["InstanceMarketOptions"].(map[string]any); ok && v["MarketType"] == "spot" {
		g.spot()
		g.toPool(f).move("InstanceMarketOptions", templateSpec+"requirements")
	}
	f.dropAll(map[string]string{
		"KeyName":             "instances are reached by Session Manager; keys are a matter of the image or user data",
		"CreditSpecification": "EC2NodeClasses leave it to the account's default",
		"EbsOptimized":        "instances are EBS-optimised where their type can be",
		"Placement":           "name a placement group in spec.placementGroupSelector",
	})
	f.rest()
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
	if v := f.object("Monitoring").move("Enabled", "spec.detailedMonitoring"); v != nil {
		g.class["detailedMonitoring"] = v
	}
	var mappings []any
	for i, v := range f.list("BlockDeviceMappings") {
		b := f.within(fmt.Sprintf("BlockDeviceMappings[%d]", i), v)
		ebs := b.object("Ebs").volume(map[string]string{
			"VolumeSize": "volumeSize", "VolumeType": "volumeType", "Iops": "iops", "Throughput": "throughput",
			"Encrypted": "encrypted", "KmsKeyId": "kmsKeyID", "SnapshotId": "snapshotID",
			"DeleteOnTermination": "deleteOnTermination",
		})
		mappings = append(mappings, map[string]any{"deviceName": text(b.take("DeviceName")), "ebs": ebs})
	}
	if mappings != nil {
		mappings[0].(map[string]any)["rootVolume"] = true
		g.class["blockDeviceMappings"] = mappings
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

// managedFamilies are the families of images by the EKS API's amiType, as far as the name goes.
var managedFamilies = []struct{ prefix, family string }{
	{"AL2023_", "AL2023"},
	{"AL2_", "AL2"},
	{"BOTTLEROCKET_", "Bottlerocket"},
	{"WINDOWS_CORE_2019", "Windows2019"},
	{"WINDOWS_FULL_2019", "Windows2019"},
	{"WINDOWS_CORE_2022", "Windows2022"},
	{"WINDOWS_FULL_2022", "Windows2022"},
}

func (m *migration) managedGroup(d *document) {
	f := d.fields(&m.notes)
	g := m.newGroup(d, text(f.take("nodegroupName")), f)
	pool, class := g.pool, g.toClass(f)
	if arn := strings.Split(text(f.take("nodegroupArn")), ":"); len(arn) > 3 {
		g.region = arn[3]
	}
	ami := text(class.take("amiType"))
	if strings.HasPrefix(ami, "WINDOWS") {
		g.system = "windows"
	}
	g.types = texts(listOf(pool.move("instanceTypes", templateSpec+"requirements")))
	if strings.EqualFold(text(pool.move("capacityType", templateSpec+"requirements")), "SPOT") {
		g.spot()
	}
	g.size(pool.object("scalingConfig"), "minSize", "maxSize", "desiredSize")
	g.labelAll(pool.object("labels"))
	for i, v := range pool.list("taints") {
		t, _ := v.(map[string]any)
		g.taints = append(g.taints, taint(text(t["key"]), text(t["value"]), managedEffect(text(t["effect"]))))
		pool.note(Mapped, fmt.Sprintf("taints[%d]", i), templateSpec+"taints", "")
	}
	g.updates(pool.object("updateConfig"), "maxUnavailable", "maxUnavailablePercentage")
	g.terms("subnetSelectorTerms", texts(listOf(class.move("subnets", "spec.subnetSelectorTerms")))...)
	if role := text(class.move("nodeRole", "spec.role")); role != "" {
		g.class["role"] = path.Base(role)
	}
	m.managedTemplate(class, g, ami, text(f.take("clusterName")))
	g.tagAll(class.object("tags"))
	pool.dropAll(map[string]string{
		"nodeRepairConfig": "run the controller with the feature gate NodeRepair",
		"remoteAccess":     "instances are reached by Session Manager; keys are a matter of the image or user data",
	})
	m.addGroup(g) // what is left of it is its state
}

// managedEffect is a taint's effect by the EKS API's name: NO_SCHEDULE is NoSchedule.
func managedEffect(effect string) string {
	out := ""
	for part := range strings.SplitSeq(strings.ToLower(effect), "_") {
		out += strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):]
	}
	return out
}

// managedTemplate takes the images, and what a launch template of one's own adds.
func (m *migration) managedTemplate(f *fields, g *group, ami, cluster string) {
	spec := f.object("launchTemplate")
	id, name := text(spec.take("id")), text(spec.take("name"))
	t := m.template(id, name, text(spec.take("version")))
	if spec.value != nil && t == nil {
		f.note(Warning, "launchTemplate", "", "it says more of instances: add the output of: aws ec2 "+
			"describe-launch-template-versions --launch-template-id "+id)
	}
	if t != nil {
		g.launch(t)
	}
	for _, v := range managedFamilies {
		if strings.HasPrefix(ami, v.prefix) {
			delete(g.class, "amiFamily")
			m.familyAndTerms(f, g.class, v.family, nil)
			g.release(f, "releaseVersion")
		}
	}
	if size := f.whole("diskSize"); size > 0 {
		f.note(Mapped, "diskSize", "spec.blockDeviceMappings", "")
		device := "/dev/xvda"
		if strings.HasPrefix(ami, "BOTTLEROCKET") {
			device = "/dev/xvdb" // its data volume
		}
		g.class["blockDeviceMappings"] = []any{map[string]any{
			"deviceName": device, "rootVolume": true, "ebs": map[string]any{"volumeSize": fmt.Sprintf("%dGi", size)},
		}}
	}
	if len(listOf(g.class["securityGroupSelectorTerms"])) == 0 {
		f.note(Added, "", "spec.securityGroupSelectorTerms", "EKS made the cluster's security group, with this tag")
		g.termOf("securityGroupSelectorTerms", map[string]any{"aws:eks:cluster-name": cluster})
	}
	if g.class["metadataOptions"] == nil {
		g.metadata("required", 2)
	}
}

func (m *migration) profileAnswer(d *document) {
	f := d.fields(&m.notes)
	m.fargateProfile(d, f, text(f.take("fargateProfileName")), "podExecutionRoleArn")
}
