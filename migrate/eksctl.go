package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The fields of ClusterConfig and their defaults are those of eksctl's schema (https://eksctl.io/usage/schema/).

const eksctlGroup = "eksctl.io"

// eksctlCluster is what node groups inherit from their ClusterConfig.
type eksctlCluster struct {
	name, region    string
	private, public map[string]string // subnet IDs by zone or name
}

func (m *migration) clusterConfig(d *document) {
	f := d.fields(&m.notes)
	metadata := child(d.object, "metadata")
	c := &eksctlCluster{name: text(metadata["name"]), region: text(metadata["region"])}
	subnets := f.object("vpc").object("subnets")
	c.private, c.public = eksctlSubnets(subnets.object("private")), eksctlSubnets(subnets.object("public"))
	for _, list := range []string{"managedNodeGroups", "nodeGroups"} {
		for i, v := range f.list(list) {
			m.eksctlGroup(d, f.within(fmt.Sprintf("%s[%d]", list, i), v), c, list == "managedNodeGroups")
		}
	}
	for i, v := range f.list("fargateProfiles") {
		p := f.within(fmt.Sprintf("fargateProfiles[%d]", i), v)
		m.fargateProfile(d, p, text(p.take("name")), "podExecutionRoleARN")
	}
	f.to("report").drop("karpenter", "it installs Karpenter's controller, whose place Nodeless takes")
	// The rest is not about nodes.
}

func eksctlSubnets(f *fields) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(f.value)) {
		out[key] = text(f.object(key).take("id"))
	}
	return out
}

func (m *migration) eksctlGroup(d *document, f *fields, c *eksctlCluster, managed bool) {
	name := text(f.take("name"))
	label := "alpha.eksctl.io/nodegroup-name"
	if managed {
		label = managedLabel
	}
	g := m.newGroup(d, name, f, label)
	g.region = c.region
	f, class := g.pool, g.toClass(f)
	if strings.HasPrefix(text(f.value["amiFamily"]), "Windows") {
		g.system = "windows"
	}
	g.eksctlInstances(f, managed)
	g.size(f, "minSize", "maxSize", "desiredCapacity")
	g.zones = texts(listOf(f.move("availabilityZones", templateSpec+"requirements")))
	g.eksctlNodes(f)
	g.eksctlNetwork(class, c)
	m.eksctlImage(class, g)
	g.eksctlIdentity(class)
	g.eksctlVolumes(class)
	g.eksctlMetadata(class)
	g.kubelet = eksctlKubelet(class)
	f.dropAll(map[string]string{
		"ssh":                      "instances are reached by Session Manager; keys are a matter of the image or user data",
		"asgSuspendProcesses":      "there is no Auto Scaling group",
		"asgMetricsCollection":     "there is no Auto Scaling group: see docs/what-does-it-tell-prometheus.md",
		"classicLoadBalancerNames": "register pods, by an Ingress or Service, rather than instances",
		"targetGroupARNs":          "register pods, by an Ingress or Service, rather than instances",
		"propagateASGTags":         "there is no Auto Scaling group",
		"cpuCredits":               "EC2NodeClasses leave it to the account's default",
		"efaEnabled":               "list the network interfaces in spec.networkInterfaces of the EC2NodeClass",
		"nodeRepairConfig":         "run the controller with the feature gate NodeRepair",
		"ebsOptimized":             "instances are EBS-optimised where their type can be",
		"containerRuntime":         "all images run containerd",
		"instanceName":             "nodes are called after their NodePool",
		"instancePrefix":           "nodes are called after their NodePool",
		"upgradePolicy":            "nodes are replaced when their NodePool, class or image changes",
		"launchTemplate": "add the output of: aws ec2 describe-launch-template-versions, and of: aws eks " +
			"describe-nodegroup, instead of this group",
	})
	f.rest()
	m.addGroup(g)
}

func (g *group) eksctlInstances(f *fields, managed bool) {
	one := text(f.move("instanceType", templateSpec+"requirements"))
	g.types = texts(listOf(f.move("instanceTypes", templateSpec+"requirements")))
	d := f.object("instancesDistribution")
	g.types = append(g.types, texts(listOf(d.move("instanceTypes", templateSpec+"requirements")))...)
	if one != "" && one != "mixed" {
		g.types = append(g.types, one)
	}
	g.eksctlSelector(f.object("instanceSelector"))
	if len(g.types)+len(g.requirements) == 0 {
		g.types = []string{"m5.large"}
		f.note(Added, "instanceType", templateSpec+"requirements", "eksctl's default is m5.large")
	}
	slices.Sort(g.types)
	g.types = slices.Compact(g.types)
	if f.take("spot") == true {
		g.spot()
		f.note(Mapped, "spot", templateSpec+"requirements", "")
	}
	if d.value != nil && !managed {
		g.distribution(d, "onDemandBaseCapacity", "onDemandPercentageAboveBaseCapacity")
	}
	d.dropAll(map[string]string{
		"spotInstancePools":      "EC2 Fleet takes spot instances by capacity and price",
		"spotAllocationStrategy": "EC2 Fleet takes spot instances by capacity and price",
		"capacityRebalance":      "run the controller with --interruption-queue: it replaces instances that are about to go",
		"maxPrice":               "spot instances have the market's price",
	})
}

// eksctlSelector reads which instance types eksctl selects: those with exactly these quantities.
func (g *group) eksctlSelector(f *fields) {
	g.exactly(f, "instance-cpu", "vCPUs", vcpus)
	g.exactly(f, "instance-memory", "memory", mebibytes)
	g.exactly(f, "instance-gpu-count", "gpus", vcpus)
	arch := text(f.move("cpuArchitecture", templateSpec+"requirements"))
	if arch == "" && len(g.requirements) > 0 {
		arch = "x86_64"
		f.note(Added, "cpuArchitecture", templateSpec+"requirements", "eksctl's default is x86_64")
	}
	if arch != "" {
		g.requirements = append(g.requirements, requirement("kubernetes.io/arch", "In", kubernetesArch(arch)))
	}
	for _, key := range []string{"allow", "deny"} {
		f.drop(key, "list the types in a requirement of node.kubernetes.io/instance-type")
	}
}

// exactly reads a quantity that instance types have exactly. To eksctl, 0 GPUs are none, and 0 of anything else is no
// condition.
func (g *group) exactly(f *fields, label, key string, unit func(any) (int64, error)) {
	v := f.take(key)
	if v == nil {
		return
	}
	n, err := unit(v)
	switch label = classGroup + "/" + label; {
	case err != nil:
		f.note(Failed, key, templateSpec+"requirements", err.Error())
		return
	case n != 0:
		g.requirements = append(g.requirements, requirement(label, "In", strconv.FormatInt(n, 10)))
	case key == "gpus":
		g.requirements = append(g.requirements, map[string]any{"key": label, "operator": "DoesNotExist"})
	default:
		f.note(Dropped, key, "", "to eksctl, 0 is no condition")
		return
	}
	f.note(Mapped, key, templateSpec+"requirements", "")
}

// kubernetesArch returns the Kubernetes label value for an architecture of EC2.
func kubernetesArch(arch string) string {
	if arch == "x86_64" {
		return "amd64"
	}
	return arch
}

func (g *group) eksctlNodes(f *fields) {
	g.labelAll(f.object("labels"))
	switch taints := f.take("taints").(type) {
	case map[string]any: // key: value:Effect
		for _, key := range slices.Sorted(maps.Keys(taints)) {
			value, effect, _ := strings.Cut(text(taints[key]), ":")
			g.taints = append(g.taints, taint(key, value, effect))
		}
		f.note(Mapped, "taints", templateSpec+"taints", "")
	case []any:
		for _, v := range taints {
			t, _ := v.(map[string]any)
			g.taints = append(g.taints, taint(text(t["key"]), text(t["value"]), text(t["effect"])))
		}
		f.note(Mapped, "taints", templateSpec+"taints", "")
	}
	if n := f.whole("maxInstanceLifetime"); n > 0 { // seconds
		g.expireAfter = duration(n)
		f.note(Mapped, "maxInstanceLifetime", templateSpec+"expireAfter", "")
	}
	g.updates(f.object("updateConfig"), "maxUnavailable", "maxUnavailablePercentage")
	g.tagAll(g.toClass(f).object("tags"))
}

// updates reads how many nodes may be replaced at once.
func (g *group) updates(f *fields, number, percentage string) {
	if n := f.whole(number); n > 0 {
		g.budget = fmt.Sprint(n)
		f.note(Mapped, number, "spec.disruption.budgets", "")
	}
	if n := f.whole(percentage); n > 0 {
		g.budget = fmt.Sprintf("%d%%", n)
		f.note(Mapped, percentage, "spec.disruption.budgets", "")
	}
	f.drop("updateStrategy", "the replacement of a node is always launched first")
}

func (g *group) eksctlNetwork(f *fields, c *eksctlCluster) {
	private, _ := f.take("privateNetworking").(bool)
	own, role := c.public, "kubernetes.io/role/elb"
	if private {
		own, role = c.private, "kubernetes.io/role/internal-elb"
		f.note(Mapped, "privateNetworking", "spec.subnetSelectorTerms", "")
	}
	given := texts(listOf(f.move("subnets", "spec.subnetSelectorTerms")))
	for i, s := range given { // IDs, or names of subnets of the cluster
		for _, known := range []map[string]string{c.private, c.public} {
			if known[s] != "" {
				given[i] = known[s]
			}
		}
	}
	switch ids := slices.DeleteFunc(slices.Sorted(maps.Values(own)), func(id string) bool { return id == "" }); {
	case len(given) > 0:
		g.terms("subnetSelectorTerms", given...)
	case len(ids) > 0:
		g.terms("subnetSelectorTerms", ids...)
	default:
		f.note(Added, "", "spec.subnetSelectorTerms", "eksctl made the subnets, with these tags")
		g.termOf("subnetSelectorTerms", map[string]any{"alpha.eksctl.io/cluster-name": c.name, role: "1"})
	}
	groups := f.object("securityGroups")
	for _, key := range []string{"withShared", "withLocal"} {
		groups.drop(key,
			"eksctl deletes its own security groups with the node group: nodes get the cluster's security group, by its tag")
	}
	f.note(Added, "", "spec.securityGroupSelectorTerms", "EKS made the cluster's security group, with this tag")
	g.termOf("securityGroupSelectorTerms", map[string]any{"aws:eks:cluster-name": c.name})
	g.terms("securityGroupSelectorTerms", texts(listOf(groups.move("attachIDs", "spec.securityGroupSelectorTerms")))...)
}

// eksctlFamilies are the image families by eksctl's names.
var eksctlFamilies = map[string]string{
	"": "AL2023", "AmazonLinux2023": "AL2023", "AmazonLinux2": "AL2", "Bottlerocket": "Bottlerocket",
	"WindowsServer2019FullContainer": "Windows2019", "WindowsServer2019CoreContainer": "Windows2019",
	"WindowsServer2022FullContainer": "Windows2022", "WindowsServer2022CoreContainer": "Windows2022",
	"WindowsServer2025FullContainer": "Windows2025", "WindowsServer2025CoreContainer": "Windows2025",
}

func (m *migration) eksctlImage(f *fields, g *group) {
	given := text(f.take("amiFamily"))
	family, known := eksctlFamilies[given]
	if !known {
		family = strings.TrimRight(given, "0123456789") // Ubuntu2204
		if strings.HasPrefix(given, "Ubuntu") {
			family = "Ubuntu"
		}
	}
	var terms []any
	if ami := text(f.move("ami", "spec.amiSelectorTerms")); strings.HasPrefix(ami, "ami-") {
		terms = []any{map[string]any{"id": ami}}
	}
	m.familyAndTerms(f, g.class, family, terms)
	g.release(f, "releaseVersion")
	if settings := f.object("bottlerocket").take("settings"); settings != nil {
		f.note(Dropped, "bottlerocket.settings", "", "write them as TOML into spec.userData")
	}
	for _, key := range []string{"preBootstrapCommands", "overrideBootstrapCommand"} {
		if f.take(key) != nil {
			f.note(Dropped, key, "",
				"write it into spec.userData, as a part of the MIME document or, for AL2023, a NodeConfig")
		}
	}
}

// release pins the images to a release, as managed node groups do: 1.33.5-20251101 is version v20251101 of the alias.
func (g *group) release(f *fields, key string) {
	version := text(f.take(key))
	terms := listOf(g.class["amiSelectorTerms"])
	if version == "" || len(terms) != 1 {
		return
	}
	term, _ := terms[0].(map[string]any)
	family, latest := strings.CutSuffix(text(term["alias"]), "@latest")
	number, date, _ := strings.Cut(version, "-")
	switch {
	case !latest:
		return
	case family == "bottlerocket":
		term["alias"] = family + "@v" + number
	case len(date) == len("20251101"):
		term["alias"] = family + "@v" + date
	default:
		return
	}
	f.note(Mapped, key, "spec.amiSelectorTerms", "nodes keep this release until you name another one, or latest")
}

func (g *group) eksctlIdentity(f *fields) {
	iam := f.object("iam")
	for key, to := range map[string]string{
		"instanceProfileARN": "instanceProfile", "instanceRoleARN": "role", "instanceRoleName": "role",
	} {
		if v := text(iam.move(key, "spec."+to)); v != "" && (to == "instanceProfile" || g.class["instanceProfile"] == nil) {
			g.class[to] = path.Base(v)
		}
	}
	if g.class["instanceProfile"] != nil {
		delete(g.class, "role")
	}
	for _, key := range []string{
		"attachPolicyARNs", "attachPolicy", "withAddonPolicies", "instanceRolePermissionsBoundary",
	} {
		iam.drop(key, "give them to the role of nodes, or better to the add-ons' own, by pod identity")
	}
}

func (g *group) eksctlVolumes(f *fields) {
	names := map[string]string{
		"volumeSize": "volumeSize", "volumeType": "volumeType", "volumeIOPS": "iops", "volumeThroughput": "throughput",
		"volumeEncrypted": "encrypted", "volumeKmsKeyID": "kmsKeyID",
	}
	root := f.volume(names)
	device := cmp.Or(text(f.take("volumeName")), rootDevice(text(f.value["amiFamily"])))
	for key, value := range map[string]any{"volumeSize": "80Gi", "volumeType": "gp3"} { // eksctl's defaults
		if root[key] == nil {
			root[key] = value
		}
	}
	mappings := []any{map[string]any{"deviceName": device, "rootVolume": true, "ebs": root}}
	for i, v := range f.list("additionalVolumes") {
		extra := f.within(fmt.Sprintf("additionalVolumes[%d]", i), v)
		ebs := extra.volume(names)
		if id := extra.move("snapshotID", "spec.blockDeviceMappings"); id != nil {
			ebs["snapshotID"] = id
		}
		mappings = append(mappings, map[string]any{"deviceName": text(extra.take("volumeName")), "ebs": ebs})
	}
	g.class["blockDeviceMappings"] = mappings
}

func (g *group) eksctlMetadata(f *fields) {
	tokens, hops := "required", 2
	if f.take("disableIMDSv1") == false {
		tokens = "optional"
		f.note(Mapped, "disableIMDSv1", "spec.metadataOptions.httpTokens", "")
	}
	if f.take("disablePodIMDS") == true {
		hops = 1
		f.note(Mapped, "disablePodIMDS", "spec.metadataOptions.httpPutResponseHopLimit", "")
	}
	g.metadata(tokens, hops)
	if v := f.move("enableDetailedMonitoring", "spec.detailedMonitoring"); v != nil {
		g.class["detailedMonitoring"] = v
	}
	placementGroup(g, f.object("placement"), "groupName", "name")
	target := f.object("capacityReservation").object("capacityReservationTarget")
	if id := text(target.move("capacityReservationID", "spec.capacityReservationSelectorTerms")); id != "" {
		g.class["capacityReservationSelectorTerms"] = []any{map[string]any{"id": id}}
		g.capacity = append([]string{"reserved"}, g.capacity...)
	}
}

func eksctlKubelet(f *fields) map[string]any {
	extra := f.object("kubeletExtraConfig")
	out := kubeletOf(extra)
	extra.leave("EC2NodeClasses do not have it: write it into spec.userData")
	if n := f.whole("maxPodsPerNode"); n > 0 {
		f.note(Mapped, "maxPodsPerNode", "spec.kubelet.maxPods", "")
		out = put(out, "maxPods", n)
	}
	if v := text(f.move("clusterDNS", "spec.kubelet.clusterDNS")); v != "" {
		out = put(out, "clusterDNS", []any{v})
	}
	return out
}

// fargateProfile makes a FargateProfile of nodeless.sh from one of EKS.
func (m *migration) fargateProfile(d *document, f *fields, name, role string) {
	f = f.to("FargateProfile " + objectName(name))
	var selectors []any
	for i, v := range f.list("selectors") {
		s := f.within(fmt.Sprintf("selectors[%d]", i), v)
		out := map[string]any{"namespace": text(s.move("namespace", "spec.selectors"))}
		if labels := s.move("labels", "spec.selectors"); labels != nil {
			out["labels"] = labels
		}
		selectors = append(selectors, out)
	}
	for _, key := range []string{role, "subnets", "tags"} {
		f.drop(key, "its pods run in microVMs on your own hosts; on EKS itself, the profile stays as it is")
	}
	m.others = append(m.others, &Object{Value: map[string]any{
		"apiVersion": "nodeless.sh/v1alpha1", "kind": "FargateProfile", "metadata": map[string]any{"name": objectName(name)},
		"spec": map[string]any{"selectors": selectors},
	}, from: d.title()})
}
