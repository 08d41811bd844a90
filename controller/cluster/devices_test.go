package cluster

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	dra "github.com/nodeless/nodeless/api/devices"
	"github.com/nodeless/nodeless/engine/model"
)

func deviceClass(version int) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: meta("gpu", version)}
	c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: `device.driver == "gpu.nvidia.com"`,
	}}}
	return c
}

// gpusOf is the ResourceSlice that NVIDIA's driver publishes for a node.
func gpusOf(node string, count, version int) *resourcev1.ResourceSlice {
	s := dra.Slice(node, dra.NvidiaDriver, dra.Nvidia("L4", count, 24576))
	s.ObjectMeta = meta(s.Name, version)
	return s
}

// twoGPUs is a ResourceClaim for two GPUs, allocated to the given pods if there are any.
func twoGPUs(version int, node string, pods ...*corev1.Pod) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: meta("gpus", version)}
	c.Namespace = "default"
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", Count: 2, AllocationMode: resourcev1.DeviceAllocationModeExactCount,
	}}}
	if len(pods) == 0 {
		return c
	}
	c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}}}},
	}}
	for i := range 2 {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{
				Request: "r", Driver: dra.NvidiaDriver, Pool: node, Device: fmt.Sprintf("gpu-%d", i),
			})
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	return c
}

// sharing makes a pod use the claim of twoGPUs, and more claims.
func sharing(p *corev1.Pod, more ...string) *corev1.Pod {
	for _, name := range append([]string{"gpus"}, more...) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
	}
	return p
}

// gpuTypes returns types1 and a type with four GPUs.
func gpuTypes() []model.InstanceType {
	out := types1()
	gpu := out[0]
	gpu.Name = "z.gpu"
	gpu.Requirements = gpu.Requirements.And(model.Requirements{
		model.OneOf("karpenter.k8s.aws/instance-gpu-count", "4"),
		model.OneOf("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"),
		model.OneOf("karpenter.k8s.aws/instance-gpu-memory", "22888"),
		model.OneOf("karpenter.k8s.aws/instance-gpu-name", "l4"),
	})
	return append(out, gpu)
}

// gpusIn returns how many devices of the DeviceClass gpu the resources contain.
func gpusIn(s *model.Snapshot, r model.Resources) int64 {
	for i, name := range s.ResourceNames {
		if name == "devices of gpu" {
			return r[i]
		}
	}
	return 0
}

// shapeNamed returns the shape of a pod, pending or bound.
func shapeNamed(t *testing.T, s *model.Snapshot, name string) model.Shape {
	t.Helper()
	for _, p := range s.Pending {
		if p.Name == name {
			return s.Shapes[p.Shape]
		}
	}
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			if p.Name == name {
				return s.Shapes[p.Shape]
			}
		}
	}
	t.Fatalf("no pod %s", name)
	return model.Shape{}
}

// Of the pods that share a claim, one counts its devices: the oldest until the claim is allocated, then the first for
// which it is reserved. The others follow that pod to its node.
func TestPodsShareAClaim(t *testing.T) {
	first, second := sharing(podOf("a", "", "1", 1)), sharing(podOf("b", "", "1", 2))
	w, _ := fresh()
	for _, o := range []client.Object{deviceClass(3), gpusOf("n", 4, 4), nodeOf("n", 5), second, twoGPUs(6, ""), first} {
		w.Update(o)
	}
	s := w.Snapshot()
	if a, b := shapeNamed(t, s, "a"), shapeNamed(t, s, "b"); gpusIn(s, a.Requests) != 2 || a.Blocked != "" ||
		gpusIn(s, b.Requests) != 0 || !strings.Contains(b.Blocked, "with another pod that uses it") {
		t.Errorf("not allocated: %+v and %+v", a, b)
	}
	if got := gpusIn(s, s.Nodes[0].Allocatable); got != 4 {
		t.Errorf("the node has %d devices, want 4", got)
	}
	w.Update(twoGPUs(7, "n", second))
	w.Update(sharing(podOf("b", "n", "1", 8)))
	s = w.Snapshot()
	a, b := shapeNamed(t, s, "a"), shapeNamed(t, s, "b")
	if got := fmt.Sprint(a.Volumes); gpusIn(s, a.Requests) != 0 || a.Blocked != "" || !strings.Contains(got, "metadata.name In [n]") {
		t.Errorf("the follower: %+v", a)
	}
	if got := fmt.Sprint(b.Volumes); gpusIn(s, b.Requests) != 2 || strings.Contains(got, "metadata.name In [n]") && len(b.Volumes[0].Topology) != 1 {
		t.Errorf("the pod that runs: %+v", b)
	}
	w.Delete(sharing(podOf("b", "n", "1", 9)))
	w.Update(twoGPUs(10, ""))
	s = w.Snapshot()
	if a := shapeNamed(t, s, "a"); gpusIn(s, a.Requests) != 2 || a.Blocked != "" {
		t.Errorf("the one that is left: %+v", a)
	}
	w.Delete(first)
	if len(w.storage.users) != 0 {
		t.Errorf("nobody is left, and still waited for: %v", w.storage.users)
	}
}

// What a running pod takes are the devices that its claim has, whatever the claim would get now.
func TestARunningPodTakesTheDevicesThatItHas(t *testing.T) {
	pod := sharing(podOf("a", "n", "1", 1))
	claim := twoGPUs(2, "n", pod)
	claim.Spec.Devices.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	claim.Spec.Devices.Requests[0].Exactly.Count = 0
	for _, device := range []string{"gpu-2", "gpu-3"} {
		one := claim.Status.Allocation.Devices.Results[0]
		one.Device = device
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, one)
	}
	w, _ := fresh()
	for _, o := range []client.Object{deviceClass(3), gpusOf("n", 4, 4), nodeOf("n", 5), claim, pod} {
		w.Update(o)
	}
	s := w.Snapshot()
	if n := &s.Nodes[0]; gpusIn(s, n.Used) != 4 || gpusIn(s, n.Allocatable) != 4 {
		t.Errorf("%d of %d devices are in use, want 4 of 4", gpusIn(s, n.Used), gpusIn(s, n.Allocatable))
	}
}

// A pod that has ended holds a shared claim no longer than its reservation, although it still exists: the next pod
// gets the devices. That also holds for one that ended before it was bound.
func TestAPodThatHasEndedDoesNotLead(t *testing.T) {
	for _, node := range []string{"n", ""} {
		first, second := sharing(podOf("a", node, "1", 1)), sharing(podOf("b", "", "1", 2))
		w, _ := fresh()
		for _, o := range []client.Object{deviceClass(3), gpusOf("n", 4, 4), nodeOf("n", 5), twoGPUs(6, ""), first, second} {
			w.Update(o)
		}
		if b := shapeNamed(t, w.Snapshot(), "b"); b.Blocked == "" {
			t.Errorf("on node %q, the first pod does not lead: %+v", node, b)
		}
		ended := sharing(podOf("a", node, "1", 7))
		ended.Status.Phase = corev1.PodFailed
		w.Update(ended)
		s := w.Snapshot()
		if b := shapeNamed(t, s, "b"); gpusIn(s, b.Requests) != 2 || b.Blocked != "" {
			t.Errorf("the first pod has ended on node %q, and the next one does not lead: %+v", node, b)
		}
	}
}

// Types have the devices that their labels promise until a node publishes its own; a launched node has the promised
// devices until it is initialized.
func TestTypesAndLaunchedNodesHaveDevices(t *testing.T) {
	w, _ := fresh()
	pool := poolOf("p", 1)
	w.Update(pool)
	w.SetCatalog(ClassRef(pool.Spec.Template.Spec.NodeClassRef), gpuTypes(), "")
	if s := w.Snapshot(); gpusIn(s, s.Pools[0].Types[len(s.Pools[0].Types)-1].Allocatable) != 0 {
		t.Error("devices count although no pod asks for any")
	}
	w.Update(deviceClass(2))
	w.Update(twoGPUs(3, ""))
	w.Update(sharing(podOf("a", "", "1", 4)))
	s := w.Snapshot()
	types := s.Pools[0].Types
	if got := gpusIn(s, types[len(types)-1].Allocatable); got != 4 || gpusIn(s, types[0].Allocatable) != 0 {
		t.Errorf("the types have %d and %d devices", got, gpusIn(s, types[0].Allocatable))
	}
	if got := fmt.Sprint(shapeNamed(t, s, "a").Volumes); !strings.Contains(got, "instance-type In [z.gpu]") {
		t.Errorf("the pod may go %s", got)
	}
	if got := w.DeviceDrivers("z.gpu", shapeNamed(t, s, "a").Requests); got != dra.NvidiaDriver {
		t.Errorf("drivers %q", got)
	}
	claim, node := claimOf("c", "n", 5), nodeOf("n", 6)
	claim.Labels[model.LabelInstanceType], node.Labels[model.LabelInstanceType] = "z.gpu", "z.gpu"
	claim.Annotations = map[string]string{karpv1.DRADriversAnnotationKey: dra.NvidiaDriver}
	delete(node.Labels, karpv1.NodeInitializedLabelKey)
	w.Update(claim)
	w.Update(node)
	has := func(want int64) {
		t.Helper()
		s := w.Snapshot()
		if got := gpusIn(s, s.Nodes[0].Allocatable); got != want {
			t.Errorf("the node has %d devices, want %d", got, want)
		}
	}
	has(4)
	if got := w.UnpublishedDriver(claim, "n"); got != dra.NvidiaDriver {
		t.Errorf("not published: %q", got)
	}
	node = node.DeepCopy()
	node.ResourceVersion, node.Labels[karpv1.NodeInitializedLabelKey] = "7", "true"
	w.Update(node)
	has(0)
	w.Update(gpusOf("n", 3, 8))
	has(3)
	if got := w.UnpublishedDriver(claim, "n"); got != "" {
		t.Errorf("not published: %q", got)
	}
	if types := w.Snapshot().Pools[0].Types; gpusIn(w.Snapshot(), types[len(types)-1].Allocatable) != 3 {
		t.Error("what the node has does not count for its type")
	}
}

// Pods that are pending when the controller starts become schedulable when the catalogue, which arrives later, has
// devices.
func TestPodsThatWaitHearOfTheCatalogue(t *testing.T) {
	w, _ := fresh()
	pool := poolOf("p", 1)
	for _, o := range []client.Object{pool, deviceClass(2), twoGPUs(3, ""), sharing(podOf("a", "", "1", 4))} {
		w.Update(o)
	}
	if a := shapeNamed(t, w.Snapshot(), "a"); a.Blocked == "" {
		t.Errorf("nobody has devices yet: %+v", a)
	}
	w.SetCatalog(ClassRef(pool.Spec.Template.Spec.NodeClassRef), gpuTypes(), "")
	s := w.Snapshot()
	a, types := shapeNamed(t, s, "a"), s.Pools[0].Types
	if got := fmt.Sprint(a.Volumes); a.Blocked != "" || !strings.Contains(got, "instance-type In [z.gpu]") ||
		gpusIn(s, types[len(types)-1].Allocatable) != 4 {
		t.Errorf("the catalogue has come: %+v", a)
	}
}

// The same objects give the same snapshot, in whatever order they arrive.
func TestDevicesInAnyOrder(t *testing.T) {
	objects := []client.Object{
		deviceClass(1), gpusOf("n", 4, 2), nodeOf("n", 3), twoGPUs(4, ""), sharing(podOf("a", "", "1", 5)),
		sharing(podOf("b", "", "1", 6)), sharing(podOf("c", "", "1", 7)),
	}
	var want *model.Snapshot
	for seed := range uint64(30) {
		w, _ := fresh()
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		for _, o := range objects {
			w.Update(o)
		}
		got := w.Snapshot()
		if want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Fatalf("order %d: got\n%+v\nwant\n%+v", seed, got, want)
		}
	}
}

// A pod leads for each of the claims that it shares, also for one that comes when it leads for another already.
func TestAPodLeadsForEachOfItsClaims(t *testing.T) {
	first := twoGPUs(4, "")
	first.Name = "first"
	for range 20 { // the users of a claim are translated in any order
		w, _ := fresh()
		for _, o := range []client.Object{
			deviceClass(1), gpusOf("n", 4, 2), nodeOf("n", 3), first, sharing(podOf("a", "", "1", 5), "first"),
			sharing(podOf("b", "", "1", 6), "first"),
		} {
			w.Update(o)
		}
		w.Snapshot()
		w.Update(twoGPUs(7, ""))
		s := w.Snapshot()
		if a, b := shapeNamed(t, s, "a"), shapeNamed(t, s, "b"); gpusIn(s, a.Requests) != 4 || a.Blocked != "" ||
			gpusIn(s, b.Requests) != 0 || !strings.Contains(b.Blocked, "with another pod that uses it") {
			t.Fatalf("%+v and %+v", a, b)
		}
	}
}

// Also devices that were seen before they are ignored no longer count.
func TestClaimsAreIgnoredFromThenOn(t *testing.T) {
	w, _ := fresh()
	pool := poolOf("p", 1)
	w.SetCatalog(ClassRef(pool.Spec.Template.Spec.NodeClassRef), gpuTypes(), "")
	for _, o := range []client.Object{
		pool, deviceClass(2), gpusOf("n", 4, 3), nodeOf("n", 4), twoGPUs(5, ""), sharing(podOf("a", "", "1", 6)),
	} {
		w.Update(o)
	}
	has := func(want int64) {
		t.Helper()
		s := w.Snapshot()
		types := s.Pools[0].Types
		if node, typ := gpusIn(s, s.Nodes[0].Allocatable), gpusIn(s, types[len(types)-1].Allocatable); node != want ||
			typ != want {
			t.Errorf("the node has %d devices, the type has %d, want %d", node, typ, want)
		}
	}
	has(4)
	w.IgnoreDevices()
	has(0)
	w.Update(twoGPUs(7, ""))
	if a := shapeNamed(t, w.Snapshot(), "a"); !reflect.DeepEqual(a.Unmodelled, []string{"resourceClaims"}) ||
		gpusIn(w.Snapshot(), a.Requests) != 0 || a.Blocked != "" {
		t.Errorf("%+v", a)
	}
}

// A State with NoDevices does not plan for pods with ResourceClaims, whatever objects it sees.
func TestClaimsAreIgnoredOnRequest(t *testing.T) {
	w := New(Options{NoDevices: true})
	for _, o := range []client.Object{deviceClass(1), twoGPUs(2, ""), sharing(podOf("a", "", "1", 3))} {
		w.Update(o)
	}
	if got := shapeNamed(t, w.Snapshot(), "a").Unmodelled; !reflect.DeepEqual(got, []string{"resourceClaims"}) {
		t.Errorf("unmodelled: %v", got)
	}
}
