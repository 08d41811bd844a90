package translate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/translate/dra"
	"github.com/nodeless/nodeless/engine/model"
)

// drawer is a shelf with ResourceClaims and templates by name.
type drawer struct {
	shelf
	claims    map[string]*resourcev1.ResourceClaim
	templates map[string]*resourcev1.ResourceClaimTemplate
}

func (d drawer) Devices() Devices { return d }

func (d drawer) ResourceClaim(_, name string) *resourcev1.ResourceClaim { return d.claims[name] }

func (d drawer) ResourceClaimTemplate(_, name string) *resourcev1.ResourceClaimTemplate {
	return d.templates[name]
}

func (d drawer) Leads(*resourcev1.ResourceClaim, *corev1.Pod) bool { return true }

func (d drawer) Fit(claims []*resourcev1.ResourceClaim) dra.Fit {
	out := dra.Fit{Types: []string{"gpu"}}
	for _, c := range claims {
		out.Takes = append(out.Takes, map[string]int64{c.Spec.Devices.Requests[0].Exactly.DeviceClassName: 2})
	}
	return out
}

func (d drawer) Allocated(c *resourcev1.ResourceClaim) map[string]int64 {
	return d.Fit([]*resourcev1.ResourceClaim{c}).Takes[0]
}

func claimSpec(class string) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
	}}}}
}

func TestClaimsOfAPod(t *testing.T) {
	now := metav1.Now()
	own := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", Controller: new(true)}}
	there := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"},
		}},
	}}}}
	d := drawer{
		templates: map[string]*resourcev1.ResourceClaimTemplate{
			"template": {Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec("gpu")}},
		},
		claims: map[string]*resourcev1.ResourceClaim{
			"free":      {ObjectMeta: metav1.ObjectMeta{Name: "free"}, Spec: claimSpec("gpu")},
			"mine":      {ObjectMeta: metav1.ObjectMeta{Name: "mine", OwnerReferences: own}, Spec: claimSpec("gpu")},
			"going":     {ObjectMeta: metav1.ObjectMeta{Name: "going", DeletionTimestamp: &now}, Spec: claimSpec("gpu")},
			"allocated": {ObjectMeta: metav1.ObjectMeta{Name: "allocated"}, Spec: claimSpec("nic"), Status: resourcev1.ResourceClaimStatus{Allocation: there}},
		},
	}
	for _, c := range []struct {
		claims string // names; a template has a colon and, once there is one, the name of its claim
		node   string
		want   string
	}{
		{"free", "", "gpu 2 | devices of gpu[node.kubernetes.io/instance-type In [gpu]]"},
		{"template:", "", "gpu 2 | devices of gpu[node.kubernetes.io/instance-type In [gpu]]"},
		{"template:mine", "", "gpu 2 | devices of gpu[node.kubernetes.io/instance-type In [gpu]]"},
		{"template:free", "", "| resourceClaim free belongs to another pod: delete it"},
		{"other:", "", "| resourceClaimTemplate other does not exist: create it"},
		{"gone", "", "| resourceClaim gone does not exist: create it"},
		{"going", "", "| resourceClaim going is being deleted: make it anew when it is gone"},
		{"allocated", "", "nic 2 | devices of resourceClaim allocated[field:metadata.name In [n]]"},
		{"allocated", "n", "nic 2 | devices of nic[node.kubernetes.io/instance-type In [gpu]]"},
		{"free allocated", "", "gpu 2 nic 2 | devices of resourceClaim allocated[field:metadata.name In [n]] devices of gpu[node.kubernetes.io/instance-type In [gpu]]"},
		{"free allocated", "n", "gpu 2 nic 2 | devices of gpu, nic[node.kubernetes.io/instance-type In [gpu]]"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1"}, Spec: corev1.PodSpec{NodeName: c.node}}
		for i, name := range strings.Fields(c.claims) {
			use := corev1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &name}
			if template, made, is := strings.Cut(name, ":"); is {
				use.ResourceClaimName, use.ResourceClaimTemplateName = nil, &template
				if made != "" {
					pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: use.Name, ResourceClaimName: &made}}
				}
			}
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, use)
		}
		n := NewNames()
		s := n.Shape(pod, d)
		var got []string
		for _, class := range n.DeviceClasses(s.Requests) {
			i, _ := n.Index(model.DevicesOf + class)
			got = append(got, fmt.Sprint(class, " ", s.Requests[i]))
		}
		got = append(got, "|")
		for _, v := range s.Volumes {
			got = append(got, fmt.Sprint(v.ID, v.Topology))
		}
		if s.Blocked != "" {
			got = append(got, s.Blocked)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s on %q: got\n%s, want\n%s", c.claims, c.node, text, c.want)
		}
	}
}

// Devices are not Kubernetes resources: a NodeClaim records them where only this code reads them.
func TestDevicesAreNoResourcesOfANodeClaim(t *testing.T) {
	n := NewNames()
	l, chosen := launchOf()
	has := n.DeviceResources(map[string]int64{"gpu": 4})
	l.Requests = l.Requests.Plus(has)
	claim := n.NewClaim("p-0123456789", nodePool("p"), l, chosen, Expected{Candidate: l.Chosen, Capacity: has, Allocatable: has})
	for name := range claim.Spec.Resources.Requests {
		if strings.Contains(string(name), "gpu") {
			t.Errorf("the NodeClaim requests %s", name)
		}
	}
	if m := n.Node(nil, claim); !reflect.DeepEqual(n.DeviceClasses(m.Allocatable), []string{"gpu"}) {
		t.Errorf("in flight: %v", m.Allocatable)
	}
}

func TestExpectedDevices(t *testing.T) {
	gpu := func(prefix, maker, name, count, memory string) *model.InstanceType {
		return &model.InstanceType{Name: "t", Requirements: model.NewRequirements(
			model.OneOf(prefix+"instance-gpu-manufacturer", maker), model.OneOf(prefix+"instance-gpu-name", name),
			model.OneOf(prefix+"instance-gpu-count", count), model.OneOf(prefix+"instance-gpu-memory", memory),
		)}
	}
	for _, c := range []struct {
		of   *model.InstanceType
		want string
	}{
		{gpu("karpenter.k8s.aws/", "nvidia", "a100", "8", "40960"), "8 NVIDIA A100-SXM4-40GB"},
		{gpu("karpenter.k8s.aws/", "nvidia", "a100", "8", "81920"), "8 NVIDIA A100-SXM4-80GB"},
		{gpu("eks.amazonaws.com/", "nvidia", "a10g", "1", "22888"), "1 NVIDIA A10G"},
		{gpu("karpenter.k8s.aws/", "nvidia", "none-such", "1", "1024"), ""},
		{gpu("karpenter.k8s.aws/", "amd", "radeon-pro-v520", "1", "8192"), ""},
		{&model.InstanceType{Name: "t"}, ""},
	} {
		got := ""
		for _, s := range ExpectedDevices(c.of) {
			got += fmt.Sprint(len(s.Spec.Devices), " ", *s.Spec.Devices[0].Attributes["productName"].StringValue)
		}
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.of.Requirements, got, c.want)
		}
	}
}
