package dra

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/nodeless/nodeless/api/devices"
)

// gpus returns a set in which nodes of three types are expected to have NVIDIA GPUs.
func gpus(t *testing.T, typeOf map[string]string) *Set {
	t.Helper()
	s := NewSet(func(node string) string { return typeOf[node] })
	for class, selectors := range map[string][]string{
		"gpu":    {`device.driver == "gpu.nvidia.com"`},
		"large":  {`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("30Gi")) >= 0`},
		"hopper": {`device.attributes["gpu.nvidia.com"].architecture == "Hopper"`},
		"other":  {`device.driver == "other.example.com"`},
	} {
		s.SetClass(class, classOf(selectors...))
	}
	for typ, list := range map[string][]resourcev1.Device{
		"g4dn.xlarge": devices.Nvidia("t4", 1, 16384), "p4d.24xlarge": devices.Nvidia("a100", 8, 40960),
		"p5.48xlarge": devices.Nvidia("h100", 8, 81920),
	} {
		s.Expect(typ, []*resourcev1.ResourceSlice{devices.Slice(typ, devices.NvidiaDriver, list)})
	}
	return s
}

// places formats a Fit: its types, the nodes of these types that are excepted, and other nodes.
func places(f Fit) string { return fmt.Sprint(f.Types, f.Except, f.Nodes) }

func classOf(selectors ...string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{}
	for _, s := range selectors {
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{
			CEL: &resourcev1.CELDeviceSelector{Expression: s},
		})
	}
	return c
}

// claim returns a claim with requests such as "gpu 2", with a selector after a colon, and alternatives separated by a
// bar.
func claim(requests ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	for i, text := range requests {
		r := resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		alternatives := strings.Split(text, "|")
		for k, one := range alternatives {
			wanted, selector, _ := strings.Cut(one, ":")
			e := resourcev1.ExactDeviceRequest{} // not defaulted by the API server
			_, _ = fmt.Sscan(wanted, &e.DeviceClassName, &e.Count)
			if selector != "" {
				e.Selectors = classOf(selector).Spec.Selectors
			}
			if len(alternatives) == 1 {
				r.Exactly = &e
				continue
			}
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprintf("a%d", k), DeviceClassName: e.DeviceClassName, Count: e.Count,
				AllocationMode: e.AllocationMode, Selectors: e.Selectors,
			})
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	return c
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name   string
		claims []*resourcev1.ResourceClaim
		where  string // the places, or a part of why there is none
		takes  []map[string]int64
	}{
		{
			"any GPU",
			[]*resourcev1.ResourceClaim{claim("gpu 1")},
			"[g4dn.xlarge p4d.24xlarge p5.48xlarge] [] []",
			[]map[string]int64{{"gpu": 1}},
		},
		{
			"more than one type has",
			[]*resourcev1.ResourceClaim{claim("gpu 2")},
			"[p4d.24xlarge p5.48xlarge] [] []",
			[]map[string]int64{{"gpu": 2}},
		},
		{
			"two claims together",
			[]*resourcev1.ResourceClaim{claim("gpu 4"), claim("gpu 4")},
			"[p4d.24xlarge p5.48xlarge] [] []",
			[]map[string]int64{{"gpu": 4}, {"gpu": 4}},
		},
		{
			"a selector of the request",
			[]*resourcev1.ResourceClaim{claim(`gpu 1:device.attributes["gpu.nvidia.com"].productName.startsWith("Tesla")`)},
			"[g4dn.xlarge] [] []",
			[]map[string]int64{{"gpu": 1}},
		},
		{
			"a selector of the class",
			[]*resourcev1.ResourceClaim{claim("hopper 8")},
			"[p5.48xlarge] [] []",
			[]map[string]int64{{"hopper": 8}},
		},
		{
			"the first alternative that there is",
			[]*resourcev1.ResourceClaim{claim("hopper 9|large 2|gpu 1")},
			"[p4d.24xlarge p5.48xlarge] [] []",
			[]map[string]int64{{"gpu": 2, "hopper": 2, "large": 2}},
		},
		{"more than there is", []*resourcev1.ResourceClaim{claim("gpu 9")}, "9 of deviceClass gpu)", []map[string]int64{{"gpu": 9}}},
		{"no driver", []*resourcev1.ResourceClaim{claim("other 1")}, "1 of deviceClass other)", []map[string]int64{{"other": 1}}},
		{
			"no class",
			[]*resourcev1.ResourceClaim{claim("none-such 1")},
			"deviceClass none-such does not exist: create it",
			[]map[string]int64{{"none-such": 1}},
		},
		{
			"an attribute that nobody predicts",
			[]*resourcev1.ResourceClaim{claim(`gpu 1:device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("1.0.0"))`)},
			"no such key: driverVersion",
			[]map[string]int64{{"gpu": 1}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := gpus(t, nil).Fit(c.claims)
			if got := places(f); f.Why == "" && got != c.where ||
				f.Why != "" && !strings.Contains(f.Why, c.where) {
				t.Errorf("where %s, why %q; want %s", got, f.Why, c.where)
			}
			for i := range c.takes {
				if !maps.Equal(f.Takes[i], c.takes[i]) {
					t.Errorf("claim %d takes %v, want %v", i, f.Takes[i], c.takes[i])
				}
			}
		})
	}
}

// Devices of two classes count in both, whichever is requested.
func TestClassesThatShareDevices(t *testing.T) {
	s := gpus(t, nil)
	s.Fit([]*resourcev1.ResourceClaim{claim("large 1")})
	f := s.Fit([]*resourcev1.ResourceClaim{claim("hopper 2")})
	if want := map[string]int64{"hopper": 2, "large": 2}; !maps.Equal(f.Takes[0], want) {
		t.Errorf("takes %v, want %v", f.Takes[0], want)
	}
	if got, want := s.OfType("p4d.24xlarge"), (map[string]int64{"hopper": plenty, "large": 8}); !maps.Equal(got, want) {
		t.Errorf("p4d.24xlarge has %v, want %v", got, want)
	}
	if got, want := s.OfType("p5.48xlarge"), (map[string]int64{"hopper": 8, "large": 8}); !maps.Equal(got, want) {
		t.Errorf("p5.48xlarge has %v, want %v", got, want)
	}
}

// The devices that nodes publish override what was expected of their type.
func TestNodesTeach(t *testing.T) {
	typeOf := map[string]string{"n1": "p5.48xlarge", "n2": "g4dn.xlarge", "n3": "on-premises", "n4": "p5.48xlarge"}
	s := gpus(t, typeOf)
	one := []*resourcev1.ResourceClaim{claim("gpu 1")}
	many := []*resourcev1.ResourceClaim{claim("gpu 7")}
	publish := func(node string, count, parts int) {
		slice := devices.Slice(node, devices.NvidiaDriver, devices.Nvidia("h100", count, 81920))
		slice.Spec.Pool.ResourceSliceCount = int64(parts)
		s.SetNode(node, []*resourcev1.ResourceSlice{slice})
	}
	where := func(claims []*resourcev1.ResourceClaim, want string) {
		t.Helper()
		if got := places(s.Fit(claims)); got != want {
			t.Errorf("where %s, want %s", got, want)
		}
	}
	publish("n1", 8, 2) // half of its devices: nothing counts yet
	if s.Published("n1", devices.NvidiaDriver) {
		t.Error("half of a pool counts as published")
	}
	where(many, "[p4d.24xlarge p5.48xlarge] [n1] []")
	publish("n1", 8, 1)
	publish("n3", 1, 1) // an unknown type
	where(one, "[g4dn.xlarge on-premises p4d.24xlarge p5.48xlarge] [] []")
	typeOf["n3"] = ""
	publish("n3", 1, 1) // a node without a type
	where(one, "[g4dn.xlarge on-premises p4d.24xlarge p5.48xlarge] [] [n3]")
	publish("n4", 6, 1) // two have failed
	where(many, "[p4d.24xlarge] [] [n1]")
	publish("n1", 8, 1)
	s.SetNode("n4", nil)
	where(many, "[p4d.24xlarge p5.48xlarge] [] []")
}

// Devices of a node that differ are not counted where that would be ambiguous.
func TestDevicesThatDiffer(t *testing.T) {
	s := gpus(t, nil)
	mixed := append(devices.Nvidia("h100", 1, 81920), devices.Nvidia("t4", 1, 16384)...)
	mixed[1].Name = "gpu-1"
	s.Expect("mixed", []*resourcev1.ResourceSlice{devices.Slice("mixed", devices.NvidiaDriver, mixed)})
	asks := func(request, want string) {
		t.Helper()
		f := s.Fit([]*resourcev1.ResourceClaim{claim(request)})
		if got := strings.Contains(places(f), "mixed"); got != (want == "") || !strings.Contains(f.Why, want) {
			t.Errorf("%s: %v, why %q; want %q", request, places(f), f.Why, want)
		}
	}
	asks("gpu 2", "")
	asks("hopper 1", "")
	asks(`gpu 1:device.attributes["gpu.nvidia.com"].architecture == "Turing" && device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("1Ti")) > 0`,
		"1 of deviceClass gpu)")
	for typ := range s.types {
		if typ != "mixed" {
			delete(s.types, typ)
		}
	}
	clear(s.fits)
	asks(`gpu 1:device.attributes["gpu.nvidia.com"].architecture == "Turing"`, "that differ on one node are not supported")
	all := claim("gpu 1")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode, all.Spec.Devices.Requests[0].Exactly.Count =
		resourcev1.DeviceAllocationModeAll, 0
	if f := s.Fit([]*resourcev1.ResourceClaim{all}); !strings.Contains(f.Why, "allocationMode All is not supported") {
		t.Errorf("why %q", f.Why)
	}
	mixed[1].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	delete(s.types, "mixed")
	s.Expect("mixed", []*resourcev1.ResourceSlice{devices.Slice("mixed", devices.NvidiaDriver, mixed)})
	if got := s.OfType("mixed")["gpu"]; got != 1 {
		t.Errorf("%d devices count although one is tainted", got)
	}
}

// An allocation alone determines what is taken; admin access takes nothing.
func TestAllocated(t *testing.T) {
	c := claim("gpu 2", "large 1|gpu 1", "gpu 1")
	c.Spec.Devices.Requests[2].Exactly.AdminAccess = new(true)
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, ref := range []string{"r0", "r0", "r1/a1", "r2", "gone"} {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: ref})
	}
	if got, want := gpus(t, nil).Allocated(c), (map[string]int64{"gpu": 3, "large": 3}); !maps.Equal(got, want) {
		t.Errorf("takes %v, want %v", got, want)
	}
}

// A constraint is met by any devices of a node if all have the same value; where they differ, counting would promise
// what kube-scheduler refuses.
func TestConstraints(t *testing.T) {
	name := resourcev1.FullyQualifiedName("gpu.nvidia.com/board")
	same := func(c *resourcev1.ResourceClaim, requests ...string) *resourcev1.ResourceClaim {
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &name, Requests: requests}}
		return c
	}
	distinct := claim("gpu 2")
	distinct.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: &name}}
	const differ, few = "differ in gpu.nvidia.com/board on one node", "too few"
	for _, c := range []struct {
		name   string
		boards string // of the node's four GPUs
		claim  *resourcev1.ResourceClaim
		why    string
	}{
		{"one board", "aaaa", same(claim("gpu 2")), ""},
		{"two boards", "aabb", same(claim("gpu 2")), differ},
		{"two boards, two requests", "aabb", same(claim("gpu 1", "gpu 1")), differ},
		{"two boards, another request", "aabb", same(claim("gpu 1", "gpu 1"), "r0"), ""},
		{"two boards, one device", "aabb", same(claim("gpu 1")), ""},
		{"two boards, an alternative", "aabb", same(claim("other 1|gpu 2"), "r0/a1"), differ},
		{"two boards, the other alternative", "aabb", same(claim("other 1|gpu 2"), "r0/a0"), ""},
		{"a device without a board", "aaa-", same(claim("gpu 1")), differ},
		{"no board has two", "abcd", same(claim("gpu 2")), few},
		{"distinct boards", "abcd", distinct, "constraints other than matchAttribute are not supported"},
	} {
		list := devices.Nvidia("t4", len(c.boards), 16384)
		for i := range list {
			if board := c.boards[i : i+1]; board != "-" {
				list[i].Attributes["board"] = resourcev1.DeviceAttribute{StringValue: &board}
			}
		}
		s := NewSet(func(string) string { return "" })
		s.SetClass("gpu", classOf(`device.driver == "gpu.nvidia.com"`))
		s.SetClass("other", classOf(`device.driver == "other.example.com"`))
		s.SetNode("n", []*resourcev1.ResourceSlice{devices.Slice("n", devices.NvidiaDriver, list)})
		f := s.Fit([]*resourcev1.ResourceClaim{c.claim})
		switch {
		case c.why == "" && places(f) != "[] [] [n]":
			t.Errorf("%s: %s, why %q", c.name, places(f), f.Why)
		case c.why == few && (f.Why == "" || strings.Contains(f.Why, "differ")):
			t.Errorf("%s: why %q", c.name, f.Why)
		case c.why != "" && c.why != few && !strings.Contains(f.Why, c.why):
			t.Errorf("%s: why %q, want %q", c.name, f.Why, c.why)
		}
	}
}
