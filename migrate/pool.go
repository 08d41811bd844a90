package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	poolVersion  = "karpenter.sh/v1"
	classGroup   = "karpenter.k8s.aws"
	classVersion = classGroup + "/v1"
	classKind    = "EC2NodeClass"
	templateSpec = "spec.template.spec."
)

// pool is a NodePool to write.
type pool struct {
	*Object
	from    *document
	class   string
	kubelet map[string]any // belongs to the class now
}

// provisioner migrates a Provisioner of v1alpha5.
func (m *migration) provisioner(d *document) {
	f := d.fields(&m.notes).to("NodePool")
	spec := f.object("spec")
	p := &pool{Object: d.named(poolVersion, "NodePool"), from: d}
	template := map[string]any{}
	for _, key := range []string{"labels", "annotations"} {
		if v := spec.move(key, "spec.template.metadata."+key); v != nil {
			set(template, v, "metadata", key)
		}
	}
	node := map[string]any{}
	for _, key := range []string{"taints", "startupTaints"} {
		if v := spec.move(key, templateSpec+key); v != nil {
			node[key] = v
		}
	}
	node["requirements"] = m.provisionerRequirements(spec)
	p.class = m.provisionerClass(spec, d)
	node["nodeClassRef"] = classRef(p.class)
	kubelet := spec.object("kubeletConfiguration")
	p.kubelet = kubeletOf(kubelet)
	node["expireAfter"] = m.provisionerExpiry(spec)
	set(p.Value, template, "spec", "template")
	set(p.Value, node, "spec", "template", "spec")
	set(p.Value, m.provisionerDisruption(spec), "spec", "disruption")
	if limits := spec.object("limits"); limits.value != nil {
		if v := limits.move("resources", "spec.limits"); v != nil {
			set(p.Value, v, "spec", "limits")
		}
	}
	if v := spec.move("weight", "spec.weight"); v != nil {
		set(p.Value, v, "spec", "weight")
	}
	f.rest()
	m.pools = append(m.pools, p)
	m.nodes = append(m.nodes, Nodes{Label: "karpenter.sh/provisioner-name", Value: d.name()})
}

func classRef(name string) map[string]any {
	return map[string]any{"group": classGroup, "kind": classKind, "name": name}
}

// provisionerClass returns the name of the EC2NodeClass that replaces providerRef or provider.
func (m *migration) provisionerClass(spec *fields, d *document) string {
	ref := spec.object("providerRef")
	ref.take("apiVersion")
	ref.take("kind")
	if name := text(ref.move("name", templateSpec+"nodeClassRef.name")); name != "" {
		spec.drop("provider", "providerRef names an AWSNodeTemplate, which replaces it")
		return name
	}
	inline := spec.to(classKind).object("provider")
	if inline.value == nil {
		spec.note(Failed, "providerRef", "", "it names no AWSNodeTemplate, and there is no provider: say which subnets, "+
			"security groups and images its nodes have")
		return d.name()
	}
	inline.take("apiVersion")
	inline.take("kind")
	m.nodeTemplate(inline, d)
	return d.name()
}

// provisionerDefaults are what Karpenter's webhook added to the requirements of a Provisioner.
var provisionerDefaults = []struct {
	unless []string // one of these keys is constrained
	add    map[string]any
}{
	{[]string{corev1.LabelOSStable}, requirement(corev1.LabelOSStable, "In", "linux")},
	{[]string{corev1.LabelArchStable}, requirement(corev1.LabelArchStable, "In", "amd64")},
	{[]string{karpv1.CapacityTypeLabelKey}, requirement(karpv1.CapacityTypeLabelKey, "In", "on-demand")},
	{typeKeys, requirement(classGroup+"/instance-category", "In", "c", "m", "r")},
	{typeKeys, requirement(classGroup+"/instance-generation", "Gt", "2")},
}

// typeKeys are the keys that constrain instance types.
var typeKeys = []string{
	corev1.LabelInstanceTypeStable, classGroup + "/instance-family", classGroup + "/instance-category",
	classGroup + "/instance-generation",
}

func requirement(key, operator string, values ...string) map[string]any {
	return map[string]any{"key": key, "operator": operator, "values": anys(values)}
}

func (m *migration) provisionerRequirements(spec *fields) []any {
	out := requirementsOf(spec, templateSpec)
	given := len(out)
	for _, d := range provisionerDefaults {
		if slices.ContainsFunc(out[:given], func(r any) bool {
			return slices.Contains(d.unless, text(r.(map[string]any)["key"]))
		}) {
			continue
		}
		out = append(out, d.add)
		spec.note(Added, "requirements", templateSpec+"requirements",
			fmt.Sprintf("Karpenter's webhook added %s %s %s to a Provisioner without it", d.add["key"], d.add["operator"],
				strings.Join(texts(listOf(d.add["values"])), ", ")))
	}
	return out
}

// goneLabels are labels of nodes that Karpenter no longer sets.
var goneLabels = []string{classGroup + "/instance-ami-id", classGroup + "/instance-pods"}

// requirementsOf migrates spec.requirements.
func requirementsOf(spec *fields, to string) []any {
	out := []any{}
	for i, v := range spec.list("requirements") {
		r, ok := v.(map[string]any)
		field := fmt.Sprintf("requirements[%d]", i)
		key := text(r["key"])
		switch {
		case !ok || key == "":
			spec.note(Dropped, field, "", "it has no key")
			continue
		case slices.Contains(goneLabels, key):
			spec.note(Dropped, field, "", "nodes do not have the label "+key+" any more")
			continue
		case key == "eks.amazonaws.com/capacityType":
			values := texts(listOf(r["values"]))
			for i := range values {
				values[i] = strings.ReplaceAll(strings.ToLower(values[i]), "_", "-")
			}
			spec.note(Approximated, field, to+"requirements", "eks.amazonaws.com/capacityType is a label of managed node "+
				"groups, which Karpenter only copied to nodes: karpenter.sh/capacity-type decides what is launched")
			out = append(out, requirement(karpv1.CapacityTypeLabelKey, text(r["operator"]), values...))
			continue
		}
		spec.note(Mapped, field, to+"requirements", "")
		copied := map[string]any{}
		for k, v := range r {
			copied[k] = v
		}
		if values, ok := copied["values"].([]any); ok {
			copied["values"] = anys(texts(values)) // numbers are text in the API
		}
		out = append(out, copied)
	}
	return out
}

func listOf(v any) []any {
	out, _ := v.([]any)
	return out
}

// provisionerDisruption migrates consolidation and ttlSecondsAfterEmpty.
func (m *migration) provisionerDisruption(spec *fields) map[string]any {
	const at = "spec.disruption."
	consolidation := spec.object("consolidation")
	enabled, _ := consolidation.take("enabled").(bool)
	consolidation.drop("ttlSecondsUntilExpired", "it belongs under spec, and had no effect here")
	seconds, empty := spec.number("ttlSecondsAfterEmpty")
	out := map[string]any{"budgets": []any{map[string]any{"nodes": "10%"}}}
	spec.note(Added, "", at+"budgets",
		"a Provisioner had no budgets: at most a tenth of the nodes is replaced at once, as by default")
	switch {
	case enabled:
		out["consolidationPolicy"], out["consolidateAfter"] = "WhenEmptyOrUnderutilized", "0s"
		spec.note(Mapped, "consolidation.enabled", at+"consolidationPolicy", "")
		if empty {
			spec.note(Dropped, "ttlSecondsAfterEmpty", "",
				"consolidation.enabled excludes it: empty nodes are removed at once")
		}
	case empty:
		out["consolidationPolicy"], out["consolidateAfter"] = "WhenEmpty", duration(seconds)
		spec.note(Mapped, "ttlSecondsAfterEmpty", at+"consolidateAfter", "")
	default:
		out["consolidationPolicy"], out["consolidateAfter"] = "WhenEmpty", "Never"
		spec.note(Added, "", at+"consolidateAfter",
			"a Provisioner without consolidation and ttlSecondsAfterEmpty removed no nodes; the default is 0s now")
	}
	return out
}

func (m *migration) provisionerExpiry(spec *fields) string {
	const at = templateSpec + "expireAfter"
	seconds, set := spec.number("ttlSecondsUntilExpired")
	if !set {
		spec.note(Added, "", at,
			"a Provisioner without ttlSecondsUntilExpired let nodes live for ever; the default is 720h now")
		return "Never"
	}
	spec.note(Mapped, "ttlSecondsUntilExpired", at, "")
	return duration(seconds)
}

// duration formats seconds in the largest whole unit.
func duration(seconds int) string {
	switch {
	case seconds > 0 && seconds%3600 == 0:
		return fmt.Sprintf("%dh", seconds/3600)
	case seconds > 0 && seconds%60 == 0:
		return fmt.Sprintf("%dm", seconds/60)
	}
	return fmt.Sprintf("%ds", max(seconds, 0))
}

// nodePool migrates a NodePool of v1beta1.
func (m *migration) nodePool(d *document) {
	f := d.fields(&m.notes)
	spec := f.object("spec")
	p := &pool{Object: d.named(poolVersion, "NodePool"), from: d}
	template := spec.object("template")
	if v := template.move("metadata", "spec.template.metadata"); v != nil {
		set(p.Value, v, "spec", "template", "metadata")
	}
	node, old := map[string]any{}, template.object("spec")
	for _, key := range []string{"taints", "startupTaints", "terminationGracePeriod"} {
		if v := old.move(key, templateSpec+key); v != nil {
			node[key] = v
		}
	}
	node["requirements"] = requirementsOf(old, templateSpec)
	ref := old.object("nodeClassRef")
	p.class = text(ref.move("name", templateSpec+"nodeClassRef.name"))
	kind := cmp.Or(text(ref.take("kind")), classKind)
	ref.take("apiVersion")
	node["nodeClassRef"] = map[string]any{"group": classGroup, "kind": kind, "name": p.class}
	p.kubelet = kubeletOf(old.object("kubelet"))
	old.drop("resources", "Karpenter set it itself")
	disruption, expiry := m.nodePoolDisruption(spec.object("disruption"))
	node["expireAfter"] = expiry
	set(p.Value, node, "spec", "template", "spec")
	set(p.Value, disruption, "spec", "disruption")
	for _, key := range []string{"limits", "weight"} {
		if v := spec.move(key, "spec."+key); v != nil {
			set(p.Value, v, "spec", key)
		}
	}
	f.rest()
	m.pools = append(m.pools, p)
}

func (m *migration) nodePoolDisruption(old *fields) (out map[string]any, expiry any) {
	out = map[string]any{}
	policy := cmp.Or(text(old.move("consolidationPolicy", "spec.disruption.consolidationPolicy")), "WhenUnderutilized")
	after := old.move("consolidateAfter", "spec.disruption.consolidateAfter")
	if policy == "WhenUnderutilized" {
		policy = "WhenEmptyOrUnderutilized"
		if after == nil {
			after = "0s"
		}
	}
	if after == nil {
		after = "0s"
	}
	out["consolidationPolicy"], out["consolidateAfter"] = policy, after
	if budgets := old.move("budgets", "spec.disruption.budgets"); budgets != nil {
		out["budgets"] = budgets
	}
	if expiry = old.move("expireAfter", templateSpec+"expireAfter"); expiry == nil {
		expiry = "720h"
	}
	return out, expiry
}

// kubeletKeys are the kubelet settings that an EC2NodeClass accepts.
var kubeletKeys = []string{
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft",
	"evictionSoftGracePeriod", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
	"cpuCFSQuota",
}

// kubeletOf migrates the kubelet settings of a pool, which now belong to its node class.
func kubeletOf(f *fields) map[string]any {
	f.drop("containerRuntime", "all images run containerd")
	var out map[string]any
	for _, key := range kubeletKeys {
		if v := f.move(key, classKind+" spec.kubelet."+key); v != nil {
			out = put(out, key, v)
		}
	}
	return out
}

func put(m map[string]any, key string, v any) map[string]any {
	if m == nil {
		m = map[string]any{}
	}
	m[key] = v
	return m
}

// set puts a value at a path and creates the objects above it. It leaves out an empty object.
func set(m map[string]any, v any, path ...string) {
	if empty, ok := v.(map[string]any); ok && len(empty) == 0 {
		return
	}
	for _, key := range path[:len(path)-1] {
		next := child(m, key)
		if next == nil {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	last := path[len(path)-1]
	if have, object := m[last].(map[string]any); object {
		if more, ok := v.(map[string]any); ok {
			for k, v := range more {
				have[k] = v
			}
			return
		}
	}
	m[last] = v
}
