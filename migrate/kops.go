package migrate

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
)

// The fields of kops' Cluster and InstanceGroup are those of k8s.io/kops/pkg/apis/kops/v1alpha2. What an
// InstanceGroup means to Karpenter follows kops' document on groups managed by Karpenter
// (https://kops.sigs.k8s.io/operations/karpenter).

const kopsGroup = "kops.k8s.io"

// kopsCluster is what InstanceGroups inherit from their Cluster.
type kopsCluster struct {
	name    string
	zones   map[string]string // of its subnets, by name
	public  map[string]bool   // whether its subnets have public addresses, by name
	kubelet *fields
	tags    *fields
}

func (m *migration) kopsCluster(d *document) {
	f := d.fields(&m.notes)
	spec := f.object("spec")
	c := &kopsCluster{
		name: d.name(), zones: map[string]string{}, public: map[string]bool{},
		kubelet: spec.object("kubelet"), tags: spec.object("cloudLabels"),
	}
	for i, v := range spec.list("subnets") {
		s := spec.within(fmt.Sprintf("subnets[%d]", i), v)
		name := text(s.take("name"))
		c.zones[name] = text(s.take("zone"))
		c.public[name] = text(s.take("type")) == "Public" || text(s.take("type")) == "Utility"
	}
	if a := spec.object("clusterAutoscaler"); a.value["enabled"] == true {
		m.autoscaler = &autoscaler{policy: "WhenEmptyOrUnderutilized", after: "10m"}
		m.autoscaler.read(a, map[string]string{
			"scaleDownUnneededTime": "scale-down-unneeded-time", "scaleDownUtilizationThreshold": utilizationThreshold,
		})
		a.note(Warning, "enabled", "",
			"two autoscalers would launch nodes for the same pods: disable it before the NodePools "+
				"are applied")
	}
	m.kops[d.name()] = c
}

func (m *migration) instanceGroup(d *document) {
	g := m.newGroup(d, d.name(), d.fields(&m.notes), "kops.k8s.io/instancegroup")
	f := g.pool
	spec := f.object("spec")
	if role := text(spec.take("role")); role != "" && role != "Node" {
		spec.note(Dropped, "role", "", "kops keeps running the group: Nodeless launches nodes for pods, and no "+role)
		return
	}
	if text(spec.take("manager")) == "Karpenter" {
		spec.note(Dropped, "manager", "",
			"kops makes the group's NodePool and EC2NodeClass itself, which Nodeless reads as they are")
		return
	}
	cluster := m.kops[text(child(child(d.object, "metadata"), "labels")["kops.k8s.io/cluster"])]
	if cluster == nil {
		cluster = &kopsCluster{name: text(child(child(d.object, "metadata"), "labels")["kops.k8s.io/cluster"])}
		f.note(Warning, "", "",
			"its Cluster is not among the manifests: settings that it shares with other groups are missing; "+
				"add: kops get cluster -o yaml")
	}
	g.kopsInstances(spec, cluster)
	g.kopsNodes(spec, cluster)
	g.kopsClass(m, spec, d, cluster)
	tenancy(g, spec, "tenancy")
	g.kubelet = kopsKubelet(cluster.kubelet, g.toClass(spec).object("kubelet"))
	for _, key := range []string{
		"additionalUserData", "hooks", "fileAssets", "sysctlParameters", "packages", "containerd",
	} {
		if spec.take(key) != nil {
			g.toClass(spec).note(Mapped, key, "spec.userData", "nodeup does it, from the group in kops' state store")
		}
	}
	spec.dropAll(map[string]string{
		"autoscale":                    "the NodePool decides by itself",
		"capacityRebalance":            "run the controller with --interruption-queue: it replaces nodes about to go",
		"updatePolicy":                 "nodes are replaced when their NodePool, class or image changes",
		"warmPool":                     "there are no stopped instances: nodes are launched when pods need them",
		"suspendProcesses":             "there is no Auto Scaling group",
		"instanceProtection":           "annotate nodes or pods with karpenter.sh/do-not-disrupt",
		"externalLoadBalancers":        "register pods, by an Ingress or Service, rather than instances",
		"guestAccelerators":            "it is for Google Cloud",
		"gcpProvisioningModel":         "it is for Google Cloud",
		"cpuCredits":                   "EC2NodeClasses leave it to the account's default",
		"instanceInterruptionBehavior": "spot instances are terminated",
		"compressUserData":             "user data are as in the launch template",
		"rootVolumeOptimization":       "instances are EBS-optimised where their type can be",
	})
	f.rest()
	m.addGroup(g)
}

func (g *group) kopsInstances(spec *fields, c *kopsCluster) {
	pool := g.toPool(spec)
	g.types = commas(text(pool.move("machineType", templateSpec+"requirements")))
	mixed := pool.object("mixedInstancesPolicy")
	if v := texts(listOf(mixed.move("instances", templateSpec+"requirements"))); len(v) > 0 {
		g.types = append(g.types, v...)
		slices.Sort(g.types)
		g.types = slices.Compact(g.types)
	}
	if r := mixed.object("instanceRequirements"); r.value != nil {
		g.types = nil
		g.between(r.object("cpu"), "instance-cpu", "min", "max", vcpus)
		g.between(r.object("memory"), "instance-memory", "min", "max", mebibytes)
	}
	g.distribution(mixed, "onDemandBase", "onDemandAboveBase")
	for _, key := range []string{"spotAllocationStrategy", "onDemandAllocationStrategy", "spotInstancePools"} {
		mixed.drop(key, "EC2 Fleet takes spot instances by capacity and price, on-demand instances by price")
	}
	for _, key := range []string{"maxPrice", "spotDurationInMinutes"} {
		if v := spec.take(key); v != nil {
			g.spot()
			pool.note(Approximated, key, templateSpec+"requirements",
				"its nodes are spot instances, at the market's price")
		}
	}
	g.size(spec, "minSize", "maxSize", "")
	g.zones = texts(listOf(pool.move("zones", templateSpec+"requirements")))
	subnets := texts(listOf(pool.move("subnets", templateSpec+"requirements")))
	for _, s := range subnets {
		if zone := c.zones[s]; zone != "" {
			g.zones = append(g.zones, zone)
		} else if c.zones == nil {
			g.zones = append(g.zones, s) // kops names subnets after their zones by default
		}
	}
	slices.Sort(g.zones)
	g.zones = slices.Compact(g.zones)
	if len(g.zones) > 0 {
		g.region = catalog.RegionOf(g.zones[0])
	}
	if len(subnets) > 0 && c.zones != nil {
		g.class["associatePublicIPAddress"] = c.public[subnets[0]]
	}
}

func (g *group) kopsNodes(spec *fields, c *kopsCluster) {
	pool := g.toPool(spec)
	g.labelAll(pool.object("nodeLabels"))
	for i, v := range pool.list("taints") {
		keyValue, effect, _ := strings.Cut(text(v), ":")
		key, value, _ := strings.Cut(keyValue, "=")
		g.taints = append(g.taints, taint(key, value, effect))
		pool.note(Mapped, fmt.Sprintf("taints[%d]", i), templateSpec+"taints", "")
	}
	if v := text(pool.move("maxInstanceLifetime", templateSpec+"expireAfter")); v != "" {
		g.expireAfter = v
	}
	update := pool.object("rollingUpdate")
	g.budget = text(update.move("maxUnavailable", "spec.disruption.budgets"))
	update.drop("maxSurge", "the replacement of a node is always launched first")
	update.drop("drainAndTerminate", "nodes are always drained")
	if g.weight = pool.whole("autoscalePriority"); g.weight > 0 {
		g.weight = min(g.weight, 100)
		pool.note(Mapped, "autoscalePriority", "spec.weight", "")
	}
	tags := g.toClass(spec).object("cloudLabels")
	for _, f := range []*fields{c.tags, tags} {
		if f == nil {
			continue
		}
		g.tagAll(f)
	}
}

// kopsOwners are the accounts of image owners by kops' names (https://kops.sigs.k8s.io/operations/images).
var kopsOwners = map[string]string{
	"amazon": "137112412989", "debian": "136693071363", "flatcar": "075585003325", "redhat": "309956199498",
	"ubuntu": "099720109477",
}

func (g *group) kopsClass(m *migration, spec *fields, d *document, c *kopsCluster) {
	class := g.toClass(spec)
	image := text(class.move("image", "spec.amiSelectorTerms"))
	g.class["amiFamily"] = "Custom"
	g.class["amiSelectorTerms"] = []any{kopsImage(image)}
	if image == "" {
		class.note(Failed, "image", "spec.amiSelectorTerms",
			"it is required: name an image by id, or by name and owner")
	}
	for _, t := range []struct{ key, value string }{
		{"KubernetesCluster", c.name}, {"kops.k8s.io/instancegroup", d.name()}, {"k8s.io/role/node", "1"},
	} {
		tags, _ := g.class["tags"].(map[string]any)
		g.class["tags"] = put(tags, t.key, t.value)
	}
	class.note(Added, "", "spec.tags", "kops-controller lets nodes join by these tags, and labels them")
	g.termOf("subnetSelectorTerms", map[string]any{
		"KubernetesCluster": c.name, "kops.k8s.io/instance-group/" + d.name(): "true",
	})
	if own := text(class.move("securityGroupOverride", "spec.securityGroupSelectorTerms")); own != "" {
		g.terms("securityGroupSelectorTerms", own)
	} else {
		g.termOf("securityGroupSelectorTerms", map[string]any{"KubernetesCluster": c.name, "Name": "nodes." + c.name})
	}
	g.terms("securityGroupSelectorTerms",
		texts(listOf(class.move("additionalSecurityGroups", "spec.securityGroupSelectorTerms")))...)
	profile := text(class.object("iam").move("profile", "spec.instanceProfile"))
	g.class["instanceProfile"] = "nodes." + c.name
	if profile != "" {
		g.class["instanceProfile"] = path.Base(profile)
	}
	if v := class.move("associatePublicIp", "spec.associatePublicIPAddress"); v != nil {
		g.class["associatePublicIPAddress"] = v
	}
	if v := class.move("detailedInstanceMonitoring", "spec.detailedMonitoring"); v != nil {
		g.class["detailedMonitoring"] = v
	}
	g.kopsMetadata(class)
	g.kopsVolumes(class, image)
	g.kopsUserData(m, class, d.name()+"."+c.name)
}

func kopsImage(image string) map[string]any {
	owner, name, hasOwner := strings.Cut(image, "/")
	switch {
	case strings.HasPrefix(image, "ami-"):
		return map[string]any{"id": image}
	case strings.HasPrefix(image, "ssm:"):
		return map[string]any{"ssmParameter": strings.TrimPrefix(image, "ssm:")}
	case !hasOwner:
		return map[string]any{"name": image, "owner": "self"}
	case kopsOwners[owner] != "":
		owner = kopsOwners[owner]
	}
	return map[string]any{"name": name, "owner": owner}
}

func (g *group) kopsMetadata(class *fields) {
	options := class.object("instanceMetadata")
	tokens, hops := "required", 1
	if v := text(options.move("httpTokens", "spec.metadataOptions.httpTokens")); v != "" {
		tokens = v
	}
	if v := options.whole("httpPutResponseHopLimit"); v > 0 {
		options.note(Mapped, "httpPutResponseHopLimit", "spec.metadataOptions.httpPutResponseHopLimit", "")
		hops = v
	}
	g.metadata(tokens, hops)
}

// kopsVolumes reads the root volume, whose fields are flat in v1alpha2 and an object in v1alpha3, and other volumes.
func (g *group) kopsVolumes(class *fields, image string) {
	device := rootDevice(image)
	root := class.volume(map[string]string{
		"rootVolumeSize": "volumeSize", "rootVolumeType": "volumeType", "rootVolumeIops": "iops",
		"rootVolumeThroughput": "throughput", "rootVolumeEncryption": "encrypted",
		"rootVolumeEncryptionKey": "kmsKeyID",
	})
	class.drop("rootVolumeDeleteOnTermination", "root volumes end with their instances")
	nested := class.object("rootVolume")
	maps.Copy(root, nested.volume(map[string]string{
		"size": "volumeSize", "type": "volumeType", "iops": "iops", "throughput": "throughput",
		"encryption":    "encrypted",
		"encryptionKey": "kmsKeyID",
	}))
	nested.drop("optimization", "instances are EBS-optimised where their type can be")
	var mappings []any
	if len(root) > 0 {
		class.note(Approximated, "", "spec.blockDeviceMappings", "the root device is called "+device+" there, as "+
			"in most such images: see aws ec2 describe-images")
		mappings = append(mappings, map[string]any{"deviceName": device, "rootVolume": true, "ebs": root})
	}
	for i, v := range class.list("volumes") {
		f := class.within(fmt.Sprintf("volumes[%d]", i), v)
		ebs := f.volume(map[string]string{
			"size": "volumeSize", "type": "volumeType", "iops": "iops", "throughput": "throughput",
			"encrypted": "encrypted",
			"key":       "kmsKeyID", "deleteOnTermination": "deleteOnTermination",
		})
		mappings = append(mappings, map[string]any{"deviceName": text(f.take("device")), "ebs": ebs})
	}
	if class.take("volumeMounts") != nil {
		class.note(Mapped, "volumeMounts", "spec.userData", "nodeup does it, from the group in kops' state store")
	}
	if mappings != nil {
		g.class["blockDeviceMappings"] = mappings
	}
}

// userDataPlaceholder stands for user data that is not among the manifests.
const userDataPlaceholder = placeholder + "THE-USER-DATA-OF-THE-LAUNCH-TEMPLATE"

// kopsUserData reads nodeup's script from the group's launch template.
func (g *group) kopsUserData(m *migration, class *fields, template string) {
	if t := m.templates.version("", template, ""); t != nil {
		g.class["userData"] = t.userData()
		class.note(Mapped, "", "spec.userData", "from the launch template "+template)
	} else {
		g.class["userData"] = userDataPlaceholder
		class.note(Warning, "", "spec.userData",
			"nodes join by nodeup's script, which is in the launch template: add the output "+
				"of: aws ec2 describe-launch-template-versions --launch-template-name "+template+" --versions '$Latest'")
	}
	class.note(Warning, "", "",
		"nodeup reads the group's settings where kops keeps them: keep the group in kops, with minSize "+
			"and maxSize 0")
}

// kopsKubelet merges the kubelet settings of a cluster and a group. An EC2NodeClass takes some, because the
// scheduling of pods depends on them. nodeup sets all of them.
func kopsKubelet(fs ...*fields) map[string]any {
	var out map[string]any
	for _, f := range fs {
		if f == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(f.value)) {
			switch v := f.value[key].(type) {
			case string:
				switch key {
				case "evictionHard", "evictionSoft":
					out = put(out, key, pairs(v, "<"))
				case "evictionSoftGracePeriod":
					out = put(out, key, pairs(v, "="))
				case "clusterDNS":
					out = put(out, key, []any{v})
				}
			default:
				if slices.Contains(kubeletKeys, key) {
					out = put(out, key, v)
				}
			}
			if f.taken[key] {
				continue
			}
			if out[key] == nil {
				f.drop(key, "nodeup sets it")
			} else {
				f.move(key, "spec.kubelet."+key)
			}
		}
	}
	return out
}

// pairs parses signals with values: "memory.available<100Mi,nodefs.available<10%".
func pairs(v, between string) map[string]any {
	out := map[string]any{}
	for _, part := range commas(v) {
		if key, value, ok := strings.Cut(part, between); ok {
			out[key] = value
		}
	}
	return out
}
