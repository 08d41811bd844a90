package dra

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Fit is where claims can be met together, and what they take there.
type Fit struct {
	// Takes are the devices that each claim takes, by class. A device that belongs to several classes counts in each of
	// them.
	Takes []map[string]int64
	// Types are the instance types whose nodes have the devices, Except known nodes of these types that lack them;
	// Nodes are nodes of other types that have them.
	Types, Except, Nodes []string
	Why                  string // why there is no such place; "" if there is one
}

// Fit returns where claims that are not allocated yet can be met together. Only their specs count.
func (s *Set) Fit(unallocated []*resourcev1.ResourceClaim) Fit {
	claims, specs := make([]*resourcev1.ResourceClaim, len(unallocated)), make([]resourcev1.DeviceClaim, len(unallocated))
	for i, c := range unallocated {
		claims[i] = withDefaults(c)
		specs[i] = claims[i].Spec.Devices
	}
	key, err := json.Marshal(specs)
	if err != nil {
		return Fit{Why: err.Error()}
	}
	if known, ok := s.fits[string(key)]; ok {
		return known
	}
	for _, spec := range specs {
		for _, r := range requestsOf(&spec) {
			s.use(r.class)
		}
	}
	f := s.fit(claims)
	s.fits[string(key)] = f
	return f
}

// withDefaults returns the claim with the API server's defaults: forecasts use claims that it has not seen.
func withDefaults(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c = c.DeepCopy()
	set := func(mode *resourcev1.DeviceAllocationMode, count *int64) {
		*mode = cmp.Or(*mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount {
			*count = cmp.Or(*count, 1)
		}
	}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			set(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for k := range r.FirstAvailable {
			set(&r.FirstAvailable[k].AllocationMode, &r.FirstAvailable[k].Count)
		}
	}
	return c
}

// fit asks the allocator about every node and type. If a request has alternatives, the first one that a host can meet
// counts: a pod has one size.
func (s *Set) fit(claims []*resourcev1.ResourceClaim) Fit {
	types := sets.New(slices.Collect(maps.Keys(s.types))...).Union(sets.New(slices.Collect(maps.Keys(s.learned))...))
	answers := map[*host]answer{}
	var best *answer
	var whys []string
	ask := func(h *host) {
		a := s.ask(h, claims)
		if answers[h] = a; a.why != "" {
			whys = append(whys, a.why)
		} else if best == nil || slices.Compare(a.choices, best.choices) < 0 {
			best = &a
		}
	}
	for _, name := range sets.List(types) {
		ask(s.ofType(name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		if _, asked := answers[s.nodes[name]]; !asked {
			ask(s.nodes[name])
		}
	}
	if best == nil {
		return Fit{Takes: s.inSpecs(claims), Why: nowhere(claims, whys)}
	}
	fits := func(h *host) bool {
		a := answers[h]
		return a.why == "" && slices.EqualFunc(a.takes, best.takes, maps.Equal)
	}
	f := Fit{Takes: make([]map[string]int64, len(claims))}
	for i := range f.Takes {
		f.Takes[i] = s.counted(best.takes[i])
	}
	for _, name := range sets.List(types) {
		if fits(s.ofType(name)) && !anyAdmin(claims) {
			f.Types = append(f.Types, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		switch listed := slices.Contains(f.Types, s.typeOf(name)); {
		case listed && !fits(s.nodes[name]):
			f.Except = append(f.Except, name)
		case !listed && fits(s.nodes[name]):
			f.Nodes = append(f.Nodes, name)
		}
	}
	if len(f.Types)+len(f.Nodes) == 0 {
		f.Why = "no existing node has the devices that its resourceClaims request with adminAccess"
	}
	return f
}

// anyAdmin reports whether a request takes no devices from others. Such pods need existing nodes: no count would say
// whether a launched node has devices by now.
func anyAdmin(claims []*resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool {
		return slices.ContainsFunc(requestsOf(&c.Spec.Devices), func(r request) bool { return r.admin })
	})
}

// nowhere explains why no host meets the claims: what is wrong with them, or what they request.
func nowhere(claims []*resourcev1.ResourceClaim, whys []string) string {
	var wants []string
	for _, c := range claims {
		for _, r := range requestsOf(&c.Spec.Devices) {
			wants = append(wants, fmt.Sprintf("%d of deviceClass %s", r.count, r.class))
		}
	}
	text := "no node has, and no instance type is known to have, the devices that its resourceClaims ask for (" +
		strings.Join(wants, ", ") + ")"
	slices.Sort(whys)
	if whys = slices.DeleteFunc(slices.Compact(whys), func(w string) bool { return w == tooFew }); len(whys) > 0 {
		text += ": " + whys[0]
	}
	return text
}

// tooFew is the usual reason why a host does not meet claims.
const tooFew = "too few devices"

// answer is whether and how one host meets claims.
type answer struct {
	takes   []map[string]int64 // by claim and class
	choices []int              // the alternatives taken, by request
	why     string             // why the host does not meet them; "" if it does
}

// ask asks the allocator whether an empty host meets the claims, and counts what they take.
func (s *Set) ask(h *host, claims []*resourcev1.ResourceClaim) answer {
	if why := unsupported(claims); why != "" {
		return answer{why: why}
	}
	allocator, err := structured.NewAllocator(context.Background(), features, nothingAllocated(), s, h.slices, s.cel())
	if err != nil {
		return answer{why: err.Error()}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(h)}}
	results, err := allocator.Allocate(context.Background(), node, claims)
	if err != nil {
		return answer{why: err.Error()}
	}
	if results == nil {
		return answer{why: tooFew}
	}
	out := answer{takes: make([]map[string]int64, len(claims))}
	for i, c := range claims {
		requests := requestsOf(&c.Spec.Devices)
		out.takes[i] = take(requests, results[i].Devices.Results)
		for _, r := range requests {
			if out.takes[i][r.class] == 0 {
				continue
			}
			out.choices = append(out.choices, r.choice)
			if out.why = s.unlike(h, r); out.why != "" {
				return out
			}
		}
		if out.why = s.mixed(h, c, requests, results[i].Devices.Results); out.why != "" {
			return out
		}
	}
	return out
}

// nodeOf returns the node name in a host's slices.
func nodeOf(h *host) string {
	for _, s := range h.slices {
		if s.Spec.NodeName != nil {
			return *s.Spec.NodeName
		}
	}
	return h.name
}

// unlike returns why devices of a host cannot be counted for a request; "" if they can.
func (s *Set) unlike(h *host, r request) string {
	if r.all {
		return "allocationMode All is not supported"
	}
	class := s.set(h, r.class)
	for i := range class {
		d := h.devices[i]
		if len(d.ConsumesCounters) > 0 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
			return "devices that share counters, or that serve several claims, are not supported"
		}
		if matches, err := s.matches(h, i, r.selectors); err != nil || !matches {
			return "devices of deviceClass " + r.class + " that differ on one node are not supported"
		}
	}
	return ""
}

// counted adds to what a claim takes the same number of each other used class that shares devices with it.
func (s *Set) counted(takes map[string]int64) map[string]int64 {
	out := maps.Clone(takes)
	for class, n := range takes {
		for _, other := range s.sharing(class) {
			out[other] += n
		}
	}
	return out
}

// Allocated returns the devices that an allocated claim takes, by class.
func (s *Set) Allocated(c *resourcev1.ResourceClaim) map[string]int64 {
	requests := requestsOf(&c.Spec.Devices)
	for _, r := range requests {
		s.use(r.class)
	}
	return s.counted(take(requests, c.Status.Allocation.Devices.Results))
}

// take counts the devices of an allocation, by class.
func take(requests []request, results []resourcev1.DeviceRequestAllocationResult) map[string]int64 {
	out := map[string]int64{}
	for _, r := range results {
		i := slices.IndexFunc(requests, func(q request) bool { return q.ref == r.Request })
		if i >= 0 && !requests[i].admin {
			out[requests[i].class]++
		}
	}
	return out
}

// inSpecs returns what claims request, by class.
func (s *Set) inSpecs(claims []*resourcev1.ResourceClaim) []map[string]int64 {
	out := make([]map[string]int64, len(claims))
	for i, c := range claims {
		out[i] = map[string]int64{}
		for _, r := range requestsOf(&c.Spec.Devices) {
			if !r.admin && r.choice == 0 {
				out[i][r.class] += r.count
			}
		}
	}
	return out
}

// request is one request of a claim, or one of its alternatives.
type request struct {
	ref       string // as allocations name it
	class     string
	selectors []resourcev1.DeviceSelector
	count     int64
	choice    int // index among the request's alternatives
	all       bool
	admin     bool // takes no devices from others
}

func requestsOf(c *resourcev1.DeviceClaim) []request {
	var out []request
	for i := range c.Requests {
		r := &c.Requests[i]
		if e := r.Exactly; e != nil {
			out = append(out, request{
				ref: r.Name, class: e.DeviceClassName, selectors: e.Selectors, count: e.Count,
				all: e.AllocationMode == resourcev1.DeviceAllocationModeAll, admin: e.AdminAccess != nil && *e.AdminAccess,
			})
		}
		for k := range r.FirstAvailable {
			f := &r.FirstAvailable[k]
			out = append(out, request{
				ref: resourceclaim.CreateSubRequestRef(r.Name, f.Name), class: f.DeviceClassName, selectors: f.Selectors,
				count: f.Count, choice: k, all: f.AllocationMode == resourcev1.DeviceAllocationModeAll,
			})
		}
	}
	return out
}
