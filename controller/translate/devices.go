package translate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/nodeless/nodeless/api/devices"
	"github.com/nodeless/nodeless/controller/translate/dra"
	"github.com/nodeless/nodeless/engine/model"
)

// Devices looks up the objects behind the resource claims of pods (dynamic resource allocation), and where devices
// are. Objects that do not exist are nil.
type Devices interface {
	ResourceClaim(namespace, name string) *resourcev1.ResourceClaim
	ResourceClaimTemplate(namespace, name string) *resourcev1.ResourceClaimTemplate
	// Leads reports whether the devices of a claim that several pods may share count for this pod.
	Leads(claim *resourcev1.ResourceClaim, pod *corev1.Pod) bool
	// Fit and Allocated are those of a dra.Set.
	Fit([]*resourcev1.ResourceClaim) dra.Fit
	Allocated(*resourcev1.ResourceClaim) map[string]int64
}

// addDevices translates the pod's resource claims. A claim that has no devices yet restricts the pod to where
// suitable ones are, a claim that has devices to where these are. The claims of a running pod restrict it as if they
// had none: it leaves the devices behind when it moves. What they take are the devices that they have.
func (n *Names) addDevices(s *model.Shape, pod *corev1.Pod, storage Storage) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return
	}
	var d Devices
	if storage != nil {
		d = storage.Devices()
	}
	if d == nil {
		s.Unmodelled = append(s.Unmodelled, "resourceClaims")
		return
	}
	var open []*resourcev1.ResourceClaim
	var counts []bool
	for i := range pod.Spec.ResourceClaims {
		claim, shared, blocked := claimOf(pod, &pod.Spec.ResourceClaims[i], d)
		s.Blocked = cmp.Or(s.Blocked, blocked)
		if claim == nil {
			continue
		}
		leads := !shared || d.Leads(claim, pod)
		allocated := claim.Status.Allocation
		switch {
		case pod.Spec.NodeName != "" || allocated == nil:
			open, counts = append(open, claim), append(counts, leads)
		default:
			n.pinTo(s, claim)
			if leads {
				n.request(s, d.Allocated(claim))
			}
		}
		if !leads && allocated == nil {
			s.Blocked = cmp.Or(s.Blocked, "resourceClaim "+claim.Name+" is allocated with another pod that uses it; "+
				"this pod can then run on the same node")
		}
	}
	if len(open) == 0 {
		return
	}
	fit := d.Fit(open)
	for i := range open {
		switch {
		case !counts[i]:
		case open[i].Status.Allocation != nil:
			n.request(s, d.Allocated(open[i]))
		default:
			n.request(s, fit.Takes[i])
		}
	}
	s.Blocked = cmp.Or(s.Blocked, fit.Why)
	if where := placesOfDevices(fit); len(where) > 0 {
		s.Volumes = append(s.Volumes, model.Volume{ID: model.DevicesOf + classesIn(fit.Takes), Topology: where})
	}
}

// placesOfDevices returns where claims can be met.
func placesOfDevices(f dra.Fit) (out []model.Requirements) {
	if len(f.Types) > 0 {
		there := []model.Requirement{model.OneOf(model.LabelInstanceType, f.Types...)}
		if len(f.Except) > 0 {
			there = append(there, model.Requirement{Key: model.NodeNameField, Complement: true, Values: f.Except})
		}
		out = append(out, model.NewRequirements(there...))
	}
	if len(f.Nodes) > 0 {
		out = append(out, model.Requirements{model.OneOf(model.NodeNameField, f.Nodes...)})
	}
	return out
}

// claimOf returns the claim that a pod uses, or one made from its template if it has not been created; nil if the pod
// needs none. blocked says what must happen first; shared means that other pods may use the claim, too.
func claimOf(pod *corev1.Pod, use *corev1.PodResourceClaim, d Devices,
) (claim *resourcev1.ResourceClaim, shared bool, blocked string) {
	name, owned, err := resourceclaim.Name(pod, use)
	if errors.Is(err, resourceclaim.ErrClaimNotFound) {
		template := d.ResourceClaimTemplate(pod.Namespace, *use.ResourceClaimTemplateName)
		if template == nil {
			return nil, false, "resourceClaimTemplate " + *use.ResourceClaimTemplateName + " does not exist: create it"
		}
		return &resourcev1.ResourceClaim{Spec: template.Spec.Spec}, false, ""
	}
	if err != nil || name == nil {
		return nil, false, ""
	}
	claim = d.ResourceClaim(pod.Namespace, *name)
	switch {
	case claim == nil:
		return nil, false, "resourceClaim " + *name + " does not exist: create it"
	case owned && resourceclaim.IsForPod(pod, claim, false) != nil:
		return nil, false, "resourceClaim " + *name + " belongs to another pod: delete it"
	case claim.DeletionTimestamp != nil:
		return nil, false, "resourceClaim " + *name + " is being deleted: make it anew when it is gone"
	}
	return claim, !owned, ""
}

// pinTo restricts the pod to where the devices of an allocated claim are.
func (n *Names) pinTo(s *model.Shape, claim *resourcev1.ResourceClaim) {
	where := claim.Status.Allocation.NodeSelector
	if where == nil {
		return
	}
	var terms []model.Requirements
	for i := range where.NodeSelectorTerms {
		if term, err := nodeTerm(&where.NodeSelectorTerms[i]); err == nil && len(term) > 0 {
			terms = append(terms, term)
		}
	}
	s.Volumes = append(s.Volumes, model.Volume{
		ID: model.DevicesOf + "resourceClaim " + claim.Name, Topology: orNowhere(terms, true),
	})
}

// request adds devices, by class, to the requests of a shape.
func (n *Names) request(s *model.Shape, takes map[string]int64) {
	for class, count := range takes {
		if i, ok := n.Index(model.DevicesOf + class); ok {
			s.Requests[i] += count
		} else {
			s.Unmodelled = append(s.Unmodelled, "resourceClaims: more than "+strconv.Itoa(model.MaxResources)+
				" different resources and classes of devices are in use")
		}
	}
}

// DeviceResources returns counts of devices by class as resources.
func (n *Names) DeviceResources(counts map[string]int64) model.Resources {
	var s model.Shape
	n.request(&s, counts)
	return s.Requests
}

// DeviceClasses returns the classes of the devices among resources, sorted.
func (n *Names) DeviceClasses(r model.Resources) []string {
	var out []string
	for i, name := range n.List() {
		if class, is := strings.CutPrefix(name, model.DevicesOf); is && r[i] > 0 {
			out = append(out, class)
		}
	}
	slices.Sort(out)
	return out
}

func classesIn(takes []map[string]int64) string {
	all := map[string]bool{}
	for _, t := range takes {
		for class := range t {
			all[class] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// ExpectedDevices returns what drivers are expected to publish for nodes of an instance type, according to its
// labels: whole NVIDIA GPUs.
func ExpectedDevices(t *model.InstanceType) []*resourcev1.ResourceSlice {
	for _, prefix := range []string{"karpenter.k8s.aws/", "eks.amazonaws.com/"} {
		value := func(label string) string {
			r, _ := t.Requirements.Get(prefix + "instance-gpu-" + label)
			return strings.Join(r.Values, "")
		}
		if value("manufacturer") != "nvidia" {
			continue
		}
		count, _ := strconv.Atoi(value("count"))
		mib, _ := strconv.Atoi(value("memory"))
		if list := devices.Nvidia(value("name"), count, mib); len(list) > 0 {
			return []*resourcev1.ResourceSlice{devices.Slice(t.Name, devices.NvidiaDriver, list)}
		}
	}
	return nil
}
