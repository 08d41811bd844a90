// Package cloudtest is the conformance suite of cloud.Provider: every provider passes the same stories, over its real
// wire protocol.
package cloudtest

import (
	"context"
	"slices"
	"testing"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// Harness creates the clouds on which the stories run.
type Harness struct {
	// Start creates a cloud for one story: no instances, capacity for every type, both class references in place. It
	// tears down the cloud through t.Cleanup.
	Start func(t *testing.T) Cloud
}

// Cloud is a cloud under test.
type Cloud struct {
	// Connect creates a provider without memory, as after a restart of its process. Several may be in use at once.
	Connect func(t *testing.T) cloud.Provider
	// Ready is a resolved class, NotReady an unresolved one; Missing does not exist.
	Ready, NotReady, Missing cloud.ClassRef
	// Exhaust makes the cloud run out of offerings.
	Exhaust func(t *testing.T, keys ...model.OfferingKey)
	// Alive returns the IDs of all instances that are neither ending nor ended, as the cloud itself counts them.
	Alive func(t *testing.T) []string
	// Settle lets time pass until ending instances have ended.
	Settle func(t *testing.T)
}

// Run runs all stories.
func Run(t *testing.T, h Harness) {
	for _, story := range []struct {
		name string
		tell func(*teller)
	}{
		{"the catalogue is sane and stays the same slice", (*teller).catalogue},
		{"a launch obeys its requirements", (*teller).obeys},
		{"a launch takes the cheapest offering on demand", (*teller).cheapest},
		{"the same token gives the same instance", (*teller).sameToken},
		{"the same token gives the same instance after a restart, whatever is asked then", (*teller).sameTokenAfterRestart},
		{"no capacity says which offerings were exhausted", (*teller).noCapacity},
		{"when the best is exhausted the next best is launched", (*teller).nextBest},
		{"spot without capacity becomes on-demand, once", (*teller).spotFallsThrough},
		{"a launch that failed can be tried again with the same token", (*teller).triedAgain},
		{"unavailable offerings are left alone", (*teller).unavailable},
		{"terminating twice is harmless", (*teller).terminateTwice},
		{"an ended instance is gone from Get and List", (*teller).gone},
		{"unknown instances are not found, and spoil nothing for others", (*teller).unknown},
		{"an instance whose launch was lost in a crash is found by its claim", (*teller).foundAgain},
		{"many launches at once give one instance each", (*teller).many},
		{"one token from many sides gives one instance", (*teller).oneToken},
		{"a class that is not ready launches nothing", (*teller).notReady},
		{"an instance of today has not drifted", (*teller).fresh},
		{"a cancelled launch launches nothing", (*teller).cancelled},
	} {
		t.Run(story.name, func(t *testing.T) {
			c := h.Start(t)
			story.tell(&teller{T: t, cloud: c, p: c.Connect(t)})
		})
	}
}

// teller is a running story.
type teller struct {
	*testing.T
	cloud Cloud
	p     cloud.Provider
}

const gib = int64(1) << 30

// pod requests one core and a gibibyte.
func pod() model.Resources {
	var r model.Resources
	r[model.CPU], r[model.Memory], r[model.Pods] = 1000, gib, 1
	return r
}

func (t *teller) request(claim string, rs ...model.Requirement) cloud.LaunchRequest {
	return cloud.LaunchRequest{
		Token: "uid-of-" + claim, Claim: claim, Pool: "general", Class: t.cloud.Ready,
		Requirements: model.NewRequirements(rs...), Requests: pod(), Labels: map[string]string{"team": "blue"},
	}
}

func (t *teller) launch(req cloud.LaunchRequest) cloud.LaunchResult {
	t.Helper()
	result, err := t.p.Launch(context.Background(), req)
	if err != nil {
		t.Fatalf("launch %s: %v", req.Claim, err)
	}
	return result
}

func (t *teller) types() []model.InstanceType {
	t.Helper()
	types, err := t.p.Catalog(context.Background(), t.cloud.Ready)
	if err != nil {
		t.Fatalf("catalogue: %v", err)
	}
	return types
}

// offer is an offering with its price.
type offer struct {
	model.OfferingKey
	price model.Price
}

// offers returns all on-demand offerings without accelerators that hold a pod, cheapest first.
func (t *teller) offers() []offer {
	t.Helper()
	var out []offer
	for _, it := range t.types() {
		if !pod().Fits(it.Allocatable) ||
			it.Capacity[model.NvidiaGPU]+it.Capacity[model.Neuron]+it.Capacity[model.AMDGPU]+it.Capacity[model.Gaudi] > 0 {
			continue
		}
		for _, o := range it.Offerings {
			if o.CapacityType == model.OnDemand {
				out = append(out, offer{model.OfferingKey{Type: it.Name, Zone: o.Zone, CapacityType: model.OnDemand}, o.Price})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offer) int { return int(a.price - b.price) })
	if len(out) < 4 {
		t.Fatalf("the cloud has %d offerings of %s for a small pod, the stories need four", len(out), model.OnDemand)
	}
	return out
}

// exactly requires one offering.
func exactly(o offer) []model.Requirement {
	return []model.Requirement{
		model.OneOf(model.LabelInstanceType, o.Type), model.OneOf(model.LabelZone, o.Zone),
		model.OneOf(model.LabelCapacityType, o.CapacityType),
	}
}

func keyOf(m cloud.Instance) model.OfferingKey {
	return model.OfferingKey{Type: m.Type, Zone: m.Zone, CapacityType: m.CapacityType}
}

// alive checks the number of instances in the cloud.
func (t *teller) alive(want int) {
	t.Helper()
	if got := t.cloud.Alive(t.T); len(got) != want {
		t.Fatalf("the cloud has %d instances %v, want %d", len(got), got, want)
	}
}

// listed returns the instance of a claim from List, if it is there.
func (t *teller) listed(claim string) (cloud.Instance, bool) {
	t.Helper()
	instances, err := t.p.List(context.Background())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	i := slices.IndexFunc(instances, func(m cloud.Instance) bool { return m.Claim == claim })
	if i < 0 {
		return cloud.Instance{}, false
	}
	return instances[i], true
}
