package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/controller/translate/dra"
	"github.com/nodeless/nodeless/engine/model"
)

// devices holds the objects of dynamic resource allocation and the devices of nodes and types that follow from them.
type devices struct {
	*hub
	nodes *nodes
	names *translate.Names

	claims    table[*resourcev1.ResourceClaim]
	templates table[*resourcev1.ResourceClaimTemplate]
	slices    table[*resourcev1.ResourceSlice]
	classes   table[*resourcev1.DeviceClass]

	set    *dra.Set
	known  bool // the objects are known; otherwise claims are not modelled
	stale  bool // pods were translated with what was known before
	none   bool // claims are never modelled
	counts int  // number of classes for which nodes and types were counted
}

func newDevices(h *hub, nodes *nodes, names *translate.Names, none bool) *devices {
	d := &devices{hub: h, nodes: nodes, names: names, none: none}
	d.set = dra.NewSet(d.typeOf)
	return d
}

// typeOf returns the instance type of a node, "" if it is not known.
func (d *devices) typeOf(node string) string {
	if m := d.nodes.byName[node]; m != nil && m.object != nil {
		return m.object.Labels[corev1.LabelInstanceTypeStable]
	}
	return ""
}

// setKnown records that the objects of dynamic resource allocation are watched.
func (d *devices) setKnown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = !d.none
}

// IgnoreDevices does what Options.NoDevices does, for a State that may have seen objects already.
func (d *devices) IgnoreDevices() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.none, d.known, d.stale, d.counts = true, false, true, -1
	d.poke()
}

// Kinds of needs. devicesKind has a single key, for everything that says where devices are; sharersKind stands for
// the other pods that use a ResourceClaim.
const (
	resourceClaimKind = "ResourceClaim"
	templateKind      = "ResourceClaimTemplate"
	devicesKind       = "Devices"
	sharersKind       = "Sharers"
)

// allocations are the kinds of dynamic resource allocation. They are watched only if the controller may read them all.
var allocations = []kind{
	tableOf(&resourcev1.ResourceClaim{},
		func(s *State) *table[*resourcev1.ResourceClaim] { return &s.devices.claims }, always,
		func(s *State, o *resourcev1.ResourceClaim) { s.allocationChanged(resourceClaimKind, keyOf(o)) }),
	tableOf(&resourcev1.ResourceClaimTemplate{},
		func(s *State) *table[*resourcev1.ResourceClaimTemplate] { return &s.devices.templates }, otherGeneration,
		func(s *State, o *resourcev1.ResourceClaimTemplate) { s.allocationChanged(templateKind, keyOf(o)) }),
	tableOf(&resourcev1.ResourceSlice{},
		func(s *State) *table[*resourcev1.ResourceSlice] { return &s.devices.slices }, otherGeneration,
		func(s *State, o *resourcev1.ResourceSlice) {
			node := s.devices.sliceChanged(o)
			s.nodes.touch(s.nodes.byName[node])
			s.devices.changed()
		}),
	tableOf(&resourcev1.DeviceClass{},
		func(s *State) *table[*resourcev1.DeviceClass] { return &s.devices.classes }, otherGeneration,
		func(s *State, o *resourcev1.DeviceClass) {
			s.devices.set.SetClass(o.Name, s.devices.classes.live[keyOf(o)])
			s.devices.counts = -1
			s.devices.changed()
		}),
}

// allocationChanged translates the pods again whose shapes depend on an object.
func (s *State) allocationChanged(kind string, key types.NamespacedName) {
	if !s.devices.known {
		s.devices.changed()
	}
	s.pods.reshapeUsers(kind, key)
	s.poke()
}

// changed records that devices have appeared or disappeared: all pods with claims are translated again, once for all
// changes before the next snapshot.
func (d *devices) changed() {
	if !d.none {
		d.known, d.stale = true, true
		d.poke()
	}
}

// sliceChanged records the slices of the node that a slice belongs to, and returns the node's name. Devices that
// belong to no node are ignored.
func (d *devices) sliceChanged(o *resourcev1.ResourceSlice) string {
	node := nodeOfSlice(o)
	if node != "" {
		d.noteNode(node)
	}
	return node
}

// nodeCame updates the devices of a node whose type has become known.
func (d *devices) nodeCame(name string) {
	if d.set.OfNode(name) != nil {
		d.noteNode(name)
	}
}

// noteNode records the slices of a node.
func (d *devices) noteNode(node string) {
	var published []*resourcev1.ResourceSlice
	for _, s := range d.slices.live {
		if nodeOfSlice(s) == node {
			published = append(published, s)
		}
	}
	slices.SortFunc(published, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	typ := d.typeOf(node)
	before := d.set.OfType(typ)
	d.set.SetNode(node, published)
	if !maps.Equal(before, d.set.OfType(typ)) {
		d.counts = -1 // the type has other devices than expected
	}
}

// nodeOfSlice returns the node that a slice names or that owns it, determined as in Karpenter
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle of v1.14.1); "" if it belongs to no single node.
func nodeOfSlice(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName != nil {
		return *s.Spec.NodeName
	}
	for _, o := range s.OwnerReferences {
		if o.Kind == "Node" {
			return o.Name
		}
	}
	return ""
}

// expect records the devices that nodes of the types are expected to have, and returns the types with their devices
// of the classes that claims request.
func (d *devices) expect(list []model.InstanceType) []model.InstanceType {
	if !d.known {
		return list
	}
	out := list
	for i := range list {
		if expected := translate.ExpectedDevices(&list[i]); len(expected) > 0 && d.set.Expect(list[i].Name, expected) {
			d.counts = -1 // pods that are translated already may fit there
		}
		more := d.names.DeviceResources(d.set.OfType(list[i].Name))
		if more == (model.Resources{}) {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		equip(&out[i].Capacity, more)
		equip(&out[i].Allocatable, more)
	}
	return out
}

// equipNode adds to a node its devices of the classes that claims request. A node that was launched and is not
// initialized will have those of its type.
func (d *devices) equipNode(m *model.Node) {
	if !d.known {
		return
	}
	has := d.names.DeviceResources(d.set.OfNode(m.Name))
	if m.Claim != "" && m.State != model.Initialized {
		has = has.Max(d.names.DeviceResources(d.set.OfType(m.Type)))
	}
	equip(&m.Capacity, has)
	equip(&m.Allocatable, has)
}

// recount counts the devices of nodes and types again if claims request a class that has not been counted, and
// translates pods with claims again if that or anything else about devices has changed.
func (s *State) recount() {
	d := s.devices
	for d.stale || d.known && len(d.set.Used()) != d.counts {
		if used := len(d.set.Used()); used != d.counts {
			d.counts = used
			s.nodes.touchAll()
			s.pools.readdress()
		}
		d.stale = false
		s.pods.reshapeUsers(devicesKind, types.NamespacedName{})
	}
}

// DeviceDrivers returns the drivers whose devices the pods of a launch will use, in the form that Karpenter writes on
// the NodeClaim: the value of karpenter.sh/requested-dra-drivers, "" if there are none.
func (d *devices) DeviceDrivers(typ string, requests model.Resources) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, class := range d.names.DeviceClasses(requests) {
		out = append(out, d.set.Drivers(typ, class)...)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// ExpectedSlices returns what drivers are expected to publish for a node of an instance type.
func (d *devices) ExpectedSlices(node, typ string) []*resourcev1.ResourceSlice {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.set.Expected(node, typ)
}

// UnpublishedDriver returns a driver that the claim was launched for and that has not published all of its devices on
// the node yet, "" if there is none.
func (d *devices) UnpublishedDriver(claim *karpv1.NodeClaim, node string) string {
	wanted := claim.Annotations[karpv1.DRADriversAnnotationKey]
	d.mu.Lock()
	defer d.mu.Unlock()
	if wanted == "" || !d.known {
		return ""
	}
	for driver := range strings.SplitSeq(wanted, ",") {
		if driver = strings.TrimSpace(driver); driver != "" && !d.set.Published(node, driver) {
			return driver
		}
	}
	return ""
}

// Devices implements translate.Storage.
func (l *lookup) Devices() translate.Devices {
	l.note(devicesKind, types.NamespacedName{})
	if !l.in.devices.known {
		return nil
	}
	return l
}

// ResourceClaim implements translate.Devices.
func (l *lookup) ResourceClaim(namespace, name string) *resourcev1.ResourceClaim {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	l.note(resourceClaimKind, key)
	return l.in.devices.claims.live[key]
}

// ResourceClaimTemplate implements translate.Devices.
func (l *lookup) ResourceClaimTemplate(namespace, name string) *resourcev1.ResourceClaimTemplate {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	l.note(templateKind, key)
	return l.in.devices.templates.live[key]
}

// Fit implements translate.Devices.
func (l *lookup) Fit(claims []*resourcev1.ResourceClaim) dra.Fit {
	return l.in.devices.set.Fit(claims)
}

// Allocated implements translate.Devices.
func (l *lookup) Allocated(claim *resourcev1.ResourceClaim) map[string]int64 {
	return l.in.devices.set.Allocated(claim)
}

// Leads implements translate.Devices: among the pods that share a claim, the first one that the claim is reserved for
// leads; while it is reserved for none, the oldest one that has not ended.
func (l *lookup) Leads(claim *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	for _, r := range claim.Status.ReservedFor {
		if r.Resource == "pods" && r.APIGroup == "" {
			return r.UID == pod.UID
		}
	}
	shared := need{sharersKind, keyOf(claim)}
	l.note(shared.kind, shared.NamespacedName)
	for other := range l.in.users[shared] {
		if other.Terminal || other.Key.UID == string(pod.UID) {
			continue
		}
		if age := other.Created.Compare(pod.CreationTimestamp.Time); age < 0 ||
			age == 0 && other.Key.UID < string(pod.UID) {
			return false
		}
	}
	return true
}

// sharersChanged translates the other pods again that share a claim with a pod that was added or removed.
func (ps *pods) sharersChanged(p *pod) {
	for _, n := range p.needs {
		if n.kind != sharersKind {
			continue
		}
		var others []*pod
		for other := range ps.storage.users[n] {
			if other != p {
				others = append(others, other)
			}
		}
		for _, other := range others {
			ps.reshape(other)
		}
	}
}
