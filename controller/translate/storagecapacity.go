package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Capacities are what the driver of a storage class reports about volumes that it could create
// (kubernetes.io/docs/concepts/storage/storage-capacity). They are not safe for concurrent use.
type Capacities struct {
	class    string
	segments []segment
	byZone   bool              // all reports name zones or regions, which are known before a node exists
	places   map[int64]*places // by size of a volume
}

// segment is where volumes of at most limit bytes can be created: at nodes with these labels, everywhere if there are
// none.
type segment struct {
	where model.Requirements
	limit int64
}

// places are where a volume can be created: at nodes with one of these sets of labels, everywhere if there are none.
// short says for people where it cannot.
type places struct {
	where []model.Requirements
	short string
}

// NewCapacities reads the reports about a storage class, sorted. Those that name no nodes or no number count for
// nothing, as for kube-scheduler.
func NewCapacities(class string, reports []*storagev1.CSIStorageCapacity) *Capacities {
	c := &Capacities{class: class, byZone: true, places: map[int64]*places{}}
	for _, r := range reports {
		if r.NodeTopology == nil || r.MaximumVolumeSize == nil && r.Capacity == nil {
			continue
		}
		if _, err := metav1.LabelSelectorAsSelector(r.NodeTopology); err != nil {
			continue
		}
		where, err := nodeTerm(termOf(r.NodeTopology))
		if err != nil {
			continue
		}
		c.segments = append(c.segments, segment{where, volumeLimit(r)})
		c.byZone = c.byZone && !slices.ContainsFunc(where, func(q model.Requirement) bool {
			return q.Key != model.LabelZone && q.Key != model.LabelRegion || q.Complement
		})
	}
	return c
}

// volumeLimit returns the size of the largest volume that the driver can create.
func volumeLimit(c *storagev1.CSIStorageCapacity) int64 {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize.Value()
	}
	return c.Capacity.Value()
}

// termOf returns a label selector as a term of a node selector.
func termOf(s *metav1.LabelSelector) *corev1.NodeSelectorTerm {
	term := &corev1.NodeSelectorTerm{}
	for key, value := range s.MatchLabels {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		})
	}
	for _, e := range s.MatchExpressions {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	return term
}

// limitToCapacity restricts a volume that is to be created to where the driver has the capacity, as kube-scheduler
// does (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding).
func (a *attachment) limitToCapacity(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) {
	size, sized := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := a.storage.Driver(class.Provisioner)
	if !sized || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return
	}
	there := a.storage.Capacities(class.Name).placesOf(size)
	if len(there.where) == 0 {
		return
	}
	a.volume.Topology, a.volume.Short = bothOf(a.volume.Topology, there.where), there.short
	if len(a.volume.Topology) == 0 {
		a.volume.Topology = orNowhere(nil, true)
		a.block(pvc.Name, "gets no volume anywhere: "+there.short+"; add storage, or request less")
	}
}

// placesOf returns where a volume of this size can be created. Nodes of a NodePool, launched or to be launched, are
// excluded only in zones that are reported to have too little: drivers report on a zone, and on a node, only once they
// run there.
func (c *Capacities) placesOf(size resource.Quantity) *places {
	if p := c.places[size.Value()]; p != nil {
		return p
	}
	p := &places{}
	c.places[size.Value()] = p
	var there []model.Requirements
	for _, s := range c.segments {
		if s.limit < size.Value() {
			continue
		}
		if len(s.where) == 0 {
			return p
		}
		there = append(there, s.where)
	}
	ours := []model.Requirement{{Key: model.LabelPool, Complement: true}}
	if short := c.shortZones(size.Value()); len(short) > 0 {
		ours = append(ours, model.Requirement{Key: model.LabelZone, Complement: true, Values: short})
	}
	p.where = orNowhere(append(unite(there), model.NewRequirements(ours...)), false)
	p.short = c.shortfall(size)
	return p
}

// unite merges places that differ in the value of their only label.
func unite(places []model.Requirements) []model.Requirements {
	var out []model.Requirements
	values := map[string][]string{}
	for _, p := range places {
		if len(p) == 1 && len(p[0].Values) > 0 && !p[0].Complement {
			values[p[0].Key] = append(values[p[0].Key], p[0].Values...)
		} else {
			out = append(out, p)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, model.Requirements{model.OneOf(key, values[key]...)})
	}
	return out
}

// bothOf returns the places in one of each, none if there are none, as a new slice. No terms in a mean everywhere.
func bothOf(a, b []model.Requirements) []model.Requirements {
	if len(a) == 0 {
		return slices.Clone(b)
	}
	var out []model.Requirements
	for _, t := range a {
		for _, u := range b {
			if both := t.And(u); !slices.ContainsFunc(both, model.Requirement.Impossible) {
				out = append(out, both)
			}
		}
	}
	return orNowhere(out, false)
}

// shortZones returns the zones that are reported to have less than size bytes, if the driver reports on zones.
func (c *Capacities) shortZones(size int64) []string {
	if !c.byZone {
		return nil
	}
	limits := map[string]int64{}
	for _, s := range c.segments {
		if zones, ok := s.where.Get(model.LabelZone); ok {
			for _, zone := range zones.Values {
				limits[zone] = max(limits[zone], s.limit)
			}
		}
	}
	maps.DeleteFunc(limits, func(_ string, limit int64) bool { return limit >= size })
	return slices.Sorted(maps.Keys(limits))
}

// maxSegments is the number of segments that a text lists.
const maxSegments = 3

// shortfall says for people how much of a storage class is free where it is not enough, most first.
func (c *Capacities) shortfall(size resource.Quantity) string {
	var low []segment
	for _, s := range c.segments {
		if s.limit < size.Value() {
			low = append(low, s)
		}
	}
	if len(low) == 0 {
		return ""
	}
	slices.SortFunc(low, func(a, b segment) int {
		return cmp.Or(cmp.Compare(b.limit, a.limit), compareRequirements(a.where, b.where))
	})
	var parts []string
	for _, s := range low[:min(len(low), maxSegments)] {
		parts = append(parts, resource.NewQuantity(s.limit, resource.BinarySI).String()+" at "+s.where.String())
	}
	if more := len(low) - maxSegments; more > 0 {
		parts = append(parts, fmt.Sprintf("no more at %d others", more))
	}
	return fmt.Sprintf("storageClass %s has less than the %s requested: %s", c.class, size.String(),
		strings.Join(parts, ", "))
}
