package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	driver  = "gpu.example.com"
	another = "nic.example.com"
)

// devices generates device classes, and what drivers publish on the nodes: on one node all devices of a driver are
// alike.
func (g *gen) devices() {
	selector := func(text string) []resourcev1.DeviceSelector {
		return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}
	}
	for name, selectors := range map[string][]resourcev1.DeviceSelector{
		"gpu": selector(`device.driver == "gpu.example.com"`), "nic": selector(`device.driver == "nic.example.com"`),
		"fast": selector(`device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "fast"`),
	} {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.Selectors = selectors
		g.c.DeviceClasses = append(g.c.DeviceClasses, class)
	}
	slices.SortFunc(g.c.DeviceClasses, func(a, b *resourcev1.DeviceClass) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range g.c.Nodes {
		if g.chance(0.5) {
			n.Labels[corev1.LabelInstanceTypeStable] = pick(g, "small", "large")
		}
		if g.chance(0.8) {
			g.publish(n.Name, driver, g.IntN(4), pick(g, "fast", "slow"))
		}
		if g.chance(0.4) {
			g.publish(n.Name, another, 1+g.IntN(2), pick(g, "nic", "fast"))
		}
	}
}

func (g *gen) publish(node, driver string, count int, model string) {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}}
	s.Spec = resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}
	for i := range count {
		d := resourcev1.Device{
			Name: fmt.Sprintf("d%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": {StringValue: &model}, "example.com/speed": {StringValue: &model},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: q("10Gi")}},
		}
		if g.chance(0.1) {
			d.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: pick(g, resourcev1.DeviceTaintEffectNoSchedule,
				resourcev1.DeviceTaintEffectNone)}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	g.c.Slices = append(g.c.Slices, s)
}

// deviceClaim returns a claim for a pod, in its namespace.
func (g *gen) deviceClaim(p *corev1.Pod, name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: p.Namespace, UID: types.UID(p.Namespace + name),
	}}
	for i := range 1 + g.IntN(2) {
		e := resourcev1.ExactDeviceRequest{
			DeviceClassName: pick(g, "gpu", "gpu", "fast", "nic"), Count: int64(1 + g.IntN(2)),
			AllocationMode: resourcev1.DeviceAllocationModeExactCount,
		}
		if g.chance(0.02) {
			e.DeviceClassName = "none-such"
		}
		if g.chance(0.2) {
			e.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(
				`device.attributes[device.driver].model == %q`, pick(g, "fast", "slow"))}}}
		}
		if g.chance(0.05) {
			e.AdminAccess = new(true)
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests,
			resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: &e})
	}
	if g.chance(0.2) {
		alike := resourcev1.DeviceConstraint{MatchAttribute: new(resourcev1.FullyQualifiedName(pick(g, "example.com/speed",
			driver+"/model", "example.com/none-such")))}
		if g.chance(0.5) {
			alike.Requests = []string{"r0"}
		}
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{alike}
	}
	return c
}

// claimDevices gives a pending pod claims of its own, or one that it shares with others.
func (g *gen) claimDevices(p *corev1.Pod) {
	for i := range 1 + g.IntN(2) {
		use := corev1.PodResourceClaim{Name: fmt.Sprintf("u%d", i)}
		name := p.Name + "-" + use.Name
		shared := g.c.ResourceClaims
		switch {
		case g.chance(0.03):
			use.ResourceClaimName = new("none-such")
		case len(shared) > 0 && g.chance(0.3):
			c := pick(g, shared...)
			if c.Namespace != p.Namespace {
				continue
			}
			use.ResourceClaimName = &c.Name
		case g.chance(0.5):
			use.ResourceClaimTemplateName = new("template")
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses,
				corev1.PodResourceClaimStatus{Name: use.Name, ResourceClaimName: &name})
			c := g.deviceClaim(p, name)
			c.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true),
			}}
			if g.chance(0.04) {
				c.OwnerReferences = nil // the claim belongs to something else
			}
			g.c.ResourceClaims = append(g.c.ResourceClaims, c)
		default:
			use.ResourceClaimName = &name
			c := g.deviceClaim(p, name)
			if g.chance(0.05) {
				c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: noon}, []string{"resource.kubernetes.io/delete-protection"}
			}
			g.c.ResourceClaims = append(g.c.ResourceClaims, c)
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, use)
	}
}

// allocate gives a bound pod a claim with devices of its node, as kube-scheduler would, if any are free.
func (g *gen) allocate(p *corev1.Pod) {
	if ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; ended {
		return
	}
	c := g.deviceClaim(p, p.Name+"-devices")
	allocated := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{p.Spec.NodeName},
		}},
	}}}}
	c.Spec.Devices.Requests = c.Spec.Devices.Requests[:1]
	e := c.Spec.Devices.Requests[0].Exactly
	e.Selectors, e.AdminAccess = nil, nil
	if e.DeviceClassName == "none-such" {
		return
	}
	for _, s := range g.c.Slices {
		if *s.Spec.NodeName != p.Spec.NodeName || (e.DeviceClassName == "nic") != (s.Spec.Driver == another) {
			continue
		}
		for _, d := range s.Spec.Devices {
			id := strings.Join([]string{s.Spec.Driver, s.Spec.Pool.Name, d.Name}, "/")
			fast := *d.Attributes["model"].StringValue == "fast"
			if g.taken[id] || len(d.Taints) > 0 || e.DeviceClassName == "fast" && !fast ||
				len(allocated.Devices.Results) == int(e.Count) {
				continue
			}
			allocated.Devices.Results = append(allocated.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "r0", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name,
			})
		}
	}
	if len(allocated.Devices.Results) < int(e.Count) {
		return
	}
	for _, r := range allocated.Devices.Results {
		g.taken[strings.Join([]string{r.Driver, r.Pool, r.Device}, "/")] = true
	}
	c.Status.Allocation = allocated
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &c.Name}}
	g.c.ResourceClaims = append(g.c.ResourceClaims, c)
}

// draManager implements fwk.SharedDRAManager for the current case.
type draManager struct {
	fwk.ResourceClaimTracker // none of its methods is called
	of                       *Case
}

func (m *draManager) ResourceClaims() fwk.ResourceClaimTracker     { return m }
func (m *draManager) ResourceSlices() fwk.ResourceSliceLister      { return m }
func (m *draManager) DeviceClasses() fwk.DeviceClassLister         { return classLister{m} }
func (m *draManager) DeviceClassResolver() fwk.DeviceClassResolver { return m }
func (m *draManager) PodGroups() fwk.PodGroupLister                { return groupLister{} }

func (m *draManager) GetDeviceClass(corev1.ResourceName) *resourcev1.DeviceClass { return nil }

func (m *draManager) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return m.of.Slices, nil
}

func (m *draManager) List() ([]*resourcev1.ResourceClaim, error) { return m.of.ResourceClaims, nil }

func (m *draManager) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	for _, c := range m.of.ResourceClaims {
		if c.Namespace == namespace && c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, name)
}

func (m *draManager) GetPendingAllocation(types.UID) *resourcev1.AllocationResult { return nil }

func (m *draManager) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	out := sets.New[structured.DeviceID]()
	for _, c := range m.of.ResourceClaims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			out.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out, nil
}

func (m *draManager) GatherAllocatedState() (*structured.AllocatedState, error) {
	allocated, err := m.ListAllAllocatedDevices()
	return &structured.AllocatedState{
		AllocatedDevices: allocated, AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}, err
}

type classLister struct{ *draManager }

func (l classLister) List() ([]*resourcev1.DeviceClass, error) { return l.of.DeviceClasses, nil }

func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	for _, c := range l.of.DeviceClasses {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}

type groupLister struct{}

func (groupLister) Get(_, name string) (*schedulingv1alpha2.PodGroup, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}, name)
}
