package migrate

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/reason"
)

// hoursOfMonth is the length of a month in AWS's own calculators.
const hoursOfMonth = 730

// band is what widened requires of instance types: an architecture and category of the group's types, at least their
// lowest generation, and at least the CPU and memory of the smallest.
type band struct {
	arch, category []string
	generation     int
	cpu            int
	memory         int64
}

// bandOf returns nil if the catalogue does not know a type, or if one has accelerators, which have no substitute.
func bandOf(types []string) *band {
	var b *band
	for _, name := range types {
		t, ok := catalog.Lookup(name)
		if !ok || t.GPU.Count+t.Accelerator.Count > 0 {
			return nil
		}
		if b == nil {
			b = &band{generation: t.Generation, cpu: t.VCPU, memory: t.MemoryMiB}
		}
		b.arch, b.category = append(b.arch, t.Arch), append(b.category, t.Category)
		b.generation, b.cpu, b.memory = min(b.generation, t.Generation), min(b.cpu, t.VCPU), min(b.memory, t.MemoryMiB)
	}
	if b != nil {
		slices.Sort(b.arch)
		slices.Sort(b.category)
		b.arch, b.category = slices.Compact(b.arch), slices.Compact(b.category)
	}
	return b
}

func (b *band) has(t *catalog.Type) bool {
	return slices.Contains(b.arch, t.Arch) && slices.Contains(b.category, t.Category) && t.Generation >= b.generation &&
		t.VCPU >= b.cpu && t.MemoryMiB >= b.memory
}

// widened returns requirements that the types of a group meet, and others of their kind, too.
func widened(types []string) []any {
	b := bandOf(types)
	if b == nil {
		return []any{requirement(corev1.LabelInstanceTypeStable, "In", types...)}
	}
	return []any{
		requirement(corev1.LabelArchStable, "In", b.arch...),
		requirement(classGroup+"/instance-category", "In", b.category...),
		requirement(classGroup+"/instance-generation", "Gte", strconv.Itoa(b.generation)),
		requirement(classGroup+"/instance-cpu", "Gte", strconv.Itoa(b.cpu)),
		requirement(classGroup+"/instance-memory", "Gte", strconv.FormatInt(b.memory, 10)),
	}
}

// price notes what the group's nodes cost, and what they would cost with more types to choose from.
func (g *group) price(widen bool) {
	region := catalog.Of(g.region)
	nodes := max(g.min, g.desired)
	if nodes == 0 || len(g.types) == 0 || len(region.Zones()) == 0 {
		return
	}
	onDemand := nodes
	if g.share < 100 {
		onDemand = min(g.base, nodes)
		onDemand += (nodes - onDemand) * g.share / 100
	}
	cost := func(o *catalog.Offer) int64 { return int64(onDemand)*o.OnDemand + int64(nodes-onDemand)*o.SpotAverage }
	cheapest := func(has func(*catalog.Type) bool) (out *catalog.Offer) {
		for _, o := range region.Offers() {
			sold := (onDemand == 0 || o.OnDemand > 0) && (onDemand == nodes || o.SpotAverage > 0)
			if sold && has(o.Type) && (out == nil || cost(o) < cost(out)) {
				out = o
			}
		}
		return out
	}
	now := cheapest(func(t *catalog.Type) bool { return slices.Contains(g.types, t.Name) })
	if now == nil {
		return
	}
	sort := "on demand"
	switch {
	case onDemand == 0:
		sort = "spot"
	case onDemand < nodes:
		sort = fmt.Sprintf("%d of them on demand", onDemand)
	}
	why := fmt.Sprintf("%d × %s in %s, %s, cost %s a month", nodes, now.Type.Name, g.region, sort, dollars(cost(now)))
	if b := bandOf(g.types); b != nil {
		switch then := cheapest(b.has); {
		case then == now:
		case widen:
			why += fmt.Sprintf("; as %s they cost %s", then.Type.Name, dollars(cost(then)))
		default:
			why += fmt.Sprintf("; migrated with --widen they could be %s, for %s", then.Type.Name, dollars(cost(then)))
		}
	}
	g.pool.note(Priced, "", "", why+unpriced(g))
}

// unpriced says what the catalogue's prices leave out.
func unpriced(g *group) (text string) {
	if g.system == "windows" {
		text += "; these are the prices of Linux, to which EC2 adds the licence of Windows, by the vCPU"
	}
	if g.dedicated {
		text += "; these are the prices of shared hardware: dedicated instances cost more"
	}
	return text
}

func dollars(microsAnHour int64) string {
	return reason.Money(float64(microsAnHour)*hoursOfMonth/1e6, 2)
}
