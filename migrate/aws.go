package migrate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
)

// The output of the AWS CLI has the fields of the APIs of EC2 Auto Scaling (DescribeAutoScalingGroups,
// DescribeLaunchConfigurations), EC2 (DescribeLaunchTemplateVersions) and EKS (DescribeNodegroup,
// DescribeFargateProfile).

func (m *migration) autoScalingGroup(d *document) {
	f := d.fields(&m.notes)
	name := text(f.take("AutoScalingGroupName"))
	tags := listOf(f.take("Tags"))
	switch managed := tagOf(tags, ManagedTag); {
	case m.managed[managed]:
		return // it is migrated with its managed node group
	case managed != "":
		f.note(Dropped, "Tags", "", "it belongs to the managed node group "+managed+": add the output of: aws eks "+
			"describe-nodegroup --nodegroup-name "+managed)
		return
	}
	for i, v := range tags {
		t, _ := v.(map[string]any)
		if role, ok := strings.CutPrefix(text(t["Key"]), "k8s.io/role/"); ok && role != "node" {
			f.note(Dropped, fmt.Sprintf("Tags[%d]", i), "",
				"kops keeps running the group: Nodeless launches nodes for pods, and no "+role)
			return
		}
	}
	g := m.newGroup(d, name, f, "")
	f, pool := g.pool, g.pool
	g.weight = m.priorities.weight(name)
	g.size(f, "MinSize", "MaxSize", "DesiredCapacity")
	g.zones = texts(listOf(pool.move("AvailabilityZones", templateSpec+"requirements")))
	if len(g.zones) > 0 {
		g.region = catalog.RegionOf(g.zones[0])
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
	placementGroup(g, g.toClass(f), "PlacementGroup", "name")
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
	for _, v := range listOf(f.take("Instances")) {
		i, _ := v.(map[string]any)
		g.nodes.Instances = append(g.nodes.Instances, text(i["InstanceId"]))
	}
	m.addGroup(g) // the other fields are the group's state, or about how the group itself works
}

func tagOf(tags []any, key string) string {
	for _, v := range tags {
		if t, _ := v.(map[string]any); text(t["Key"]) == key {
			return text(t["Value"])
		}
	}
	return ""
}

// ManagedTag is the tag in which EKS names the managed node group of an Auto Scaling group. managedLabel is the label
// in which it names that of a Node.
const (
	ManagedTag   = "eks:nodegroup-name"
	managedLabel = "eks.amazonaws.com/nodegroup"
)

const nodeTemplate = "k8s.io/cluster-autoscaler/node-template/"

// autoScalingTag applies a tag: some tell Cluster Autoscaler what nodes look like, the others are tags of instances.
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

// autoScalingTemplate applies the launch template, and the types and distribution of a mixed instances policy.
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
	t := m.templates.version(id, text(spec.take("LaunchTemplateName")), version)
	configuration := text(f.take("LaunchConfigurationName"))
	if configuration != "" {
		t = m.templates.configurationOf(configuration)
	}
	switch {
	case t == nil && configuration != "":
		f.note(Failed, "LaunchConfigurationName", "", "it says what instances run: add the output of: aws autoscaling "+
			"describe-launch-configurations --launch-configuration-names "+configuration)
		return
	case t == nil:
		f.note(Failed, "LaunchTemplate", "", "it says what instances run: add the output of: aws ec2 "+
			"describe-launch-template-versions --launch-template-id "+id+" --versions '"+version+"'")
		return
	}
	g.launch(t, false)
}

// overrides applies the instance types of a mixed instances policy, or the requirements for them.
func (g *group) overrides(f *fields) {
	for i, v := range f.list("Overrides") {
		o := g.toPool(f).within(fmt.Sprintf("Overrides[%d]", i), v)
		if t := text(o.move("InstanceType", templateSpec+"requirements")); t != "" {
			g.types = append(g.types, t)
		}
		o.drop("WeightedCapacity", "nodes count by their size")
		o.drop("LaunchTemplateSpecification",
			"instances of one NodePool have one class: make a group of its own for the type, and migrate that")
		g.attributes(o.object("InstanceRequirements"))
	}
	slices.Sort(g.types)
	g.types = slices.Compact(g.types)
}

// makers maps EC2's names of CPU manufacturers to those in the labels of instances, where they differ.
var makers = strings.NewReplacer("amazon-web-services", "aws")

// attributes applies the requirements for instance types of a group that does not name its types.
func (g *group) attributes(f *fields) {
	if f.value == nil {
		return
	}
	const to = templateSpec + "requirements"
	require := func(label, operator string, values ...string) {
		g.requirements = append(g.requirements, requirement(label, operator, values...))
	}
	g.between(f.object("VCpuCount"), "instance-cpu", "Min", "Max", vcpus)
	g.between(f.object("MemoryMiB"), "instance-memory", "Min", "Max", asMiB)
	if not := texts(listOf(f.move("ExcludedInstanceTypes", to))); len(not) > 0 {
		require(corev1.LabelInstanceTypeStable, "NotIn", not...)
	}
	if by := texts(listOf(f.move("CpuManufacturers", to))); len(by) > 0 {
		for i := range by {
			by[i] = makers.Replace(by[i])
		}
		require(classGroup+"/instance-cpu-manufacturer", "In", by...)
	}
	switch burst := text(f.move("BurstablePerformance", to)); burst {
	case "included":
	case "required":
		require(classGroup+"/instance-category", "In", "t")
	default:
		if burst == "" {
			f.note(Added, "BurstablePerformance", to, "EC2 leaves burstable types out unless they are included")
		}
		require(classGroup+"/instance-category", "NotIn", "t")
	}
	f.leave("add a requirement by a label of karpenter.k8s.aws, if there is one")
}

// managedFamilies are the image families by prefix of the EKS API's amiType.
var managedFamilies = []struct{ prefix, family string }{
	{"AL2023_", "AL2023"},
	{"AL2_", "AL2"},
	{"BOTTLEROCKET_", "Bottlerocket"},
	{"WINDOWS_CORE_2019", "Windows2019"},
	{"WINDOWS_FULL_2019", "Windows2019"},
	{"WINDOWS_CORE_2022", "Windows2022"},
	{"WINDOWS_FULL_2022", "Windows2022"},
	{"WINDOWS_CORE_2025", "Windows2025"},
	{"WINDOWS_FULL_2025", "Windows2025"},
}

func (m *migration) managedGroup(d *document) {
	f := d.fields(&m.notes)
	g := m.newGroup(d, text(f.take("nodegroupName")), f, managedLabel)
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
	m.addGroup(g) // the other fields are its state
}

// managedEffect converts the EKS API's name of a taint effect: NO_SCHEDULE becomes NoSchedule.
func managedEffect(effect string) string {
	out := ""
	for part := range strings.SplitSeq(strings.ToLower(effect), "_") {
		out += strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):]
	}
	return out
}

// managedTemplate applies the images, and what a custom launch template adds.
func (m *migration) managedTemplate(f *fields, g *group, ami, cluster string) {
	spec := f.object("launchTemplate")
	id, name := text(spec.take("id")), text(spec.take("name"))
	t := m.templates.version(id, name, text(spec.take("version")))
	if spec.value != nil && t == nil {
		f.note(Warning, "launchTemplate", "", "it says more of instances: add the output of: aws ec2 "+
			"describe-launch-template-versions --launch-template-id "+id)
	}
	family := ""
	for _, v := range managedFamilies {
		if strings.HasPrefix(ami, v.prefix) {
			family = v.family
		}
	}
	if t != nil {
		g.launch(t, family != "")
	}
	if family != "" {
		markRoot(g, rootDevice(ami))
		if t != nil && t.data["MetadataOptions"] == nil && family != "AL2" {
			delete(g.class, "metadataOptions") // these images bring their own, see below
		}
		delete(g.class, "amiFamily")
		m.familyAndTerms(f, g.class, family, nil)
		g.release(f, "releaseVersion")
	}
	if size := f.whole("diskSize"); size > 0 {
		f.note(Mapped, "diskSize", "spec.blockDeviceMappings", "")
		g.class["blockDeviceMappings"] = []any{map[string]any{
			"deviceName": rootDevice(ami), "rootVolume": true, "ebs": map[string]any{"volumeSize": fmt.Sprintf("%dGi", size)},
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
