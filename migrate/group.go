package migrate

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// group is a node group: instances that Auto Scaling keeps between a minimum and a maximum number. It becomes a
// NodePool and an EC2NodeClass of the same name.
type group struct {
	from         *document
	pool         *fields // of the group, with notes about the NodePool
	name         string
	region       string
	system       string // kubernetes.io/os
	types        []string
	requirements []any // besides types, zones and capacity types
	capacity     []string
	base         int // on-demand nodes that come first
	share        int // percentage of on-demand nodes beyond base; 100 = all
	min, max     int
	desired      int
	zones        []string
	labels       map[string]any
	taints       []any
	expireAfter  string
	budget       string // how many nodes a change may replace at once; "" = 10%
	weight       int
	static       bool // it keeps its size
	dedicated    bool // tenancy
	nodes        Nodes

	class   map[string]any // spec of the EC2NodeClass
	kubelet map[string]any
}

// newGroup creates a group whose Nodes carry its name in this label.
func (m *migration) newGroup(d *document, name string, f *fields, label string) *group {
	return &group{
		from: d, name: objectName(name), pool: f.to("NodePool " + objectName(name)), share: 100,
		nodes: Nodes{Label: label, Value: name}, static: m.o.Static, system: "linux", labels: map[string]any{},
		capacity: []string{karpv1.CapacityTypeOnDemand}, expireAfter: "Never",
		class: map[string]any{"subnetSelectorTerms": []any{}, "securityGroupSelectorTerms": []any{}},
	}
}

// toPool and toClass return fields whose notes are about the group's NodePool or EC2NodeClass.
func (g *group) toPool(f *fields) *fields  { return f.to("NodePool " + g.name) }
func (g *group) toClass(f *fields) *fields { return f.to(classKind + " " + g.name) }

var notInNames = regexp.MustCompile(`[^a-z0-9-]+`)

// maxName leaves room for "-base" in the 63 characters of a NodePool's name.
const maxName = 58

// objectName converts a name in AWS, which may have capitals, dots and underscores, into the name of an object.
func objectName(name string) string {
	name = notInNames.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(name[:min(len(name), maxName)], "-")
}

// whole returns a whole-number field, 0 if it is not set. The caller notes where the field is mapped.
func (f *fields) whole(key string) int {
	n, _ := f.number(key)
	return n
}

// unlimited is the maximum size of a group that has none.
const unlimited = math.MaxInt32

// size reads the sizes of a group from the fields with these names.
func (g *group) size(f *fields, least, most, desired string) {
	g.min, g.desired = f.whole(least), f.whole(desired)
	n, set := f.number(most)
	switch g.max = n; {
	case set:
		g.toPool(f).note(Mapped, most, "spec.limits.nodes", "")
	case g.desired > 0:
		g.max = max(g.min, g.desired)
		g.toPool(f).note(Approximated, desired, "spec.limits.nodes",
			"without a maximum size, the group stayed at its desired size")
	default:
		g.max = unlimited
	}
	switch {
	case g.min == 0:
	case g.static:
		g.toPool(f).note(Mapped, least, "spec.replicas", "")
	default:
		g.toPool(f).note(Approximated, least, "",
			"a NodePool has the nodes that pods need, and none without pods; with --static it has as many as the group")
	}
}

// distribution reads the percentage of on-demand instances, and how many of them come first.
func (g *group) distribution(f *fields, base, share string) {
	g.base = f.whole(base)
	n, set := f.number(share)
	if !set {
		return
	}
	g.share = n
	f = g.toPool(f)
	switch {
	case n >= 100:
		f.note(Mapped, share, templateSpec+"requirements", "")
	case n <= 0:
		g.capacity = []string{karpv1.CapacityTypeSpot}
		f.note(Mapped, share, templateSpec+"requirements", "")
	default:
		g.capacity = []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot}
		f.note(Approximated, share, templateSpec+"requirements", fmt.Sprintf("a NodePool has no percentage: it launches "+
			"what is cheaper, and on-demand instances where there are no spot instances; for %d %% on demand, spread the "+
			"pods over two NodePools", n))
	}
	if g.base > 0 && n < 100 {
		f.note(Mapped, base, "NodePool "+g.name+"-base: spec.replicas", "")
	}
}

// label adds a node label, unless something else sets it or nodes may not have it.
func (g *group) label(f *fields, field, key, value string) {
	switch domain := karpv1.GetLabelDomain(key); {
	case domain == "eks.amazonaws.com" || strings.HasSuffix(domain, "alpha.eksctl.io"):
		f.note(Dropped, field, "", key+" names the node group, of which there is none any more")
	case karpv1.IsRestrictedLabel(key) != nil || karpv1.WellKnownLabels.Has(key):
		f.note(Dropped, field, "", key+" is set by the controller")
	default:
		f.note(Mapped, field, "spec.template.metadata.labels", "")
		g.labels[key] = value
	}
}

func (g *group) labelAll(f *fields) {
	for _, key := range slices.Sorted(maps.Keys(f.value)) {
		g.label(f, key, key, text(f.take(key)))
	}
}

func (g *group) tagAll(f *fields) {
	for _, key := range slices.Sorted(maps.Keys(f.value)) {
		g.tag(f, key, key, text(f.value[key]))
	}
}

// spot makes all instances of the group spot instances.
func (g *group) spot() { g.capacity, g.share = []string{karpv1.CapacityTypeSpot}, 0 }

// tag adds an instance tag, unless EC2NodeClasses may not have it.
func (g *group) tag(f *fields, field, key, value string) {
	if strings.HasPrefix(key, "kubernetes.io/cluster") || strings.HasPrefix(key, "karpenter.sh/node") ||
		strings.HasPrefix(key, "aws:") || strings.HasPrefix(key, "eks:") {
		f.noteOnce(Dropped, field, "", key+" is set by the controller, or by AWS")
		return
	}
	f.noteOnce(Mapped, field, "spec.tags", "")
	tags, _ := g.class["tags"].(map[string]any)
	g.class["tags"] = put(tags, key, value)
}

func taint(key, value, effect string) map[string]any {
	out := map[string]any{"key": key, "effect": effect}
	if value != "" {
		out["value"] = value
	}
	return out
}

// terms adds a selector term for each ID.
func (g *group) terms(key string, ids ...string) {
	have, _ := g.class[key].([]any)
	for _, id := range ids {
		have = append(have, map[string]any{"id": id})
	}
	g.class[key] = have
}

// termOf adds a selector term with tags.
func (g *group) termOf(key string, tags map[string]any) {
	have, _ := g.class[key].([]any)
	g.class[key] = append(have, map[string]any{"tags": tags})
}

// metadata sets the options of the instance metadata service. AWS's defaults are one hop, and no token.
func (g *group) metadata(tokens string, hops int) {
	g.class["metadataOptions"] = map[string]any{
		"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": hops, "httpTokens": tokens,
	}
}

// addGroup adds the group's objects to the output.
func (m *migration) addGroup(g *group) {
	switch {
	case g.name == "":
		g.pool.note(Failed, "", "", "the group has no name, which its NodePool needs")
		return
	case m.classes[g.name] != nil:
		g.pool.note(Failed, "", "",
			"there is another "+classKind+" "+g.name+" already: migrate the two one by one, and rename one")
		return
	}
	for _, key := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms"} {
		if len(listOf(g.class[key])) == 0 {
			g.toClass(g.pool).note(Failed, "", "spec."+key, "the input does not say which ones nodes have: name them")
		}
	}
	if g.expireAfter == "Never" {
		g.pool.note(Added, "", templateSpec+"expireAfter", "the group let nodes live for ever; the default is 720h")
	}
	if m.autoscaler == nil {
		g.pool.note(Added, "", "spec.disruption",
			"nodes that are empty, or of which a cheaper one would do, are replaced: where "+
				"the group kept them, it is consolidateAfter: Never")
	}
	class := &Object{Value: map[string]any{
		"apiVersion": classVersion, "kind": classKind, "metadata": map[string]any{"name": g.name}, "spec": g.class,
	}, from: g.from.title()}
	if g.class["role"] == nil && g.class["instanceProfile"] == nil {
		m.identity(g.toClass(g.pool), g.class)
	}
	m.classes[g.name], m.nodes = class, append(m.nodes, g.nodes)
	g.price(m.o.Widen)
	base := 0
	if g.share < 100 {
		base = g.base
	}
	if base > 0 {
		m.addPool(g, g.name+"-base", []string{karpv1.CapacityTypeOnDemand}, base, base)
	}
	if base > 0 && g.max <= base {
		return // it has no other nodes
	}
	replicas := 0
	if g.static {
		replicas = max(g.min, g.desired) - base
	}
	m.addPool(g, g.name, g.capacity, replicas, g.max-base)
}

// addPool adds a NodePool of a group to the output: one with a fixed number of nodes or, if replicas is not above 0,
// one for the pods that need nodes.
func (m *migration) addPool(g *group, name string, capacity []string, replicas, most int) {
	requirements := slices.Concat([]any{requirement(corev1.LabelOSStable, "In", g.system)}, g.requirements,
		[]any{requirement(karpv1.CapacityTypeLabelKey, "In", capacity...)})
	switch {
	case len(g.types) > 0 && m.o.Widen:
		requirements = append(requirements, widened(g.types)...)
	case len(g.types) > 0:
		requirements = append(requirements, requirement(corev1.LabelInstanceTypeStable, "In", g.types...))
	}
	if len(g.zones) > 0 {
		requirements = append(requirements, requirement(corev1.LabelTopologyZone, "In", g.zones...))
	}
	node := map[string]any{
		"requirements": requirements, "nodeClassRef": classRef(g.name), "expireAfter": g.expireAfter,
	}
	if len(g.taints) > 0 {
		node["taints"] = g.taints
	}
	spec := map[string]any{"template": map[string]any{"spec": node}, "disruption": m.autoscaler.disruption(g.budget)}
	set(spec, maps.Clone(g.labels), "template", "metadata", "labels")
	if most < unlimited/2 {
		spec["limits"] = map[string]any{"nodes": strconv.Itoa(most)}
	}
	if replicas > 0 {
		spec["replicas"] = replicas
	} else if g.weight > 0 {
		spec["weight"] = g.weight
	}
	o := &Object{Value: map[string]any{
		"apiVersion": poolVersion, "kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": spec,
	}, from: g.from.title()}
	m.pools = append(m.pools, &pool{Object: o, from: g.from, class: g.name, kubelet: maps.Clone(g.kubelet)})
}

// between reads the bounds of a quantity of instances, such as their number of vCPUs.
func (g *group) between(f *fields, label, least, most string, unit func(any) (int64, error)) {
	for _, b := range []struct{ key, operator string }{{least, "Gte"}, {most, "Lte"}} {
		v := f.take(b.key)
		if v == nil {
			continue
		}
		n, err := unit(v)
		if err != nil {
			f.note(Failed, b.key, templateSpec+"requirements", err.Error())
			continue
		}
		f.note(Mapped, b.key, templateSpec+"requirements", "")
		g.requirements = append(g.requirements, requirement(classGroup+"/"+label, b.operator, strconv.FormatInt(n, 10)))
	}
}

// vcpus and mebibytes parse quantities as kops and eksctl write them: 4, "8", "16Gi". Plain numbers are vCPUs and
// GiB.
func vcpus(v any) (int64, error) {
	q, err := resource.ParseQuantity(text(v))
	return q.Value(), err
}

func mebibytes(v any) (int64, error) {
	written := text(v)
	if _, err := strconv.Atoi(written); err == nil {
		written += "Gi"
	}
	q, err := resource.ParseQuantity(strings.TrimSuffix(written, "B")) // GiB and GB, as eksctl writes them
	return q.Value() >> 20, err
}

// asMiB parses a number of MiB, as the AWS API writes it.
func asMiB(v any) (int64, error) { return strconv.ParseInt(text(v), 10, 64) }
