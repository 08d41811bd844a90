package nodeclaim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// region is a cloud in memory. It outlives the controllers of a test.
type region struct {
	mu       sync.Mutex
	machines map[string]*cloud.Instance // by ID
	tokens   map[string]string          // token → ID
	launches int                        // instances actually started
	fail     error                      // the error of the next launches
	hold     chan struct{}              // launches block until it is closed
	lingers  bool                       // terminated instances stay shutting-down
	hidden   bool                       // lists lag and return nothing
	lists    int                        // number of calls of List
	lose     error                      // the error of the next launches, which start an instance all the same
	empty    []model.OfferingKey        // exhausted offerings that successful launches report
	requests []cloud.LaunchRequest      // all launch requests
	notices  []cloud.Interruption       // unacknowledged notices
	drifted  string                     // the drift reason of all instances
	unsold   bool                       // its only type is not in the catalogue
	ailing   []cloud.Interruption       // failed status checks
	ending   cloud.Ending               // why instances end
}

func newRegion() *region {
	return &region{machines: map[string]*cloud.Instance{}, tokens: map[string]string{}}
}

func (r *region) Name() string { return "memory" }

func (r *region) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsold {
		return nil, nil
	}
	return []model.InstanceType{{
		Name:      "m5.large",
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.Spot, Price: 1}},
	}}, nil
}

func (r *region) Drifted(context.Context, cloud.Launched) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drifted, nil
}

func (r *region) Ended(context.Context, string) (cloud.Ending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending, nil
}

func (r *region) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute}}
}

func (r *region) Launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	hold, fail := r.hold, r.fail
	r.mu.Unlock()
	if fail != nil {
		return cloud.LaunchResult{Exhausted: []model.OfferingKey{{
			Type: "m5.large", Zone: "a",
			CapacityType: model.Spot,
		}}}, fail
	}
	r.mu.Lock()
	id, ok := r.tokens[req.Token]
	if !ok {
		r.launches++
		id = fmt.Sprintf("i-%s", req.Claim)
		r.tokens[req.Token] = id
		var size model.Resources
		size[model.CPU], size[model.Memory], size[model.Pods] = 2000, 8<<30, 29
		r.machines[id] = &cloud.Instance{
			ID: id, ProviderID: "aws:///a/" + id, Claim: req.Claim, Pool: req.Pool, Type: "m5.large", Zone: "a",
			CapacityType: model.Spot,
			ImageID:      "ami-1", State: cloud.Running, Launched: time.Now(), Capacity: size, Allocatable: size,
			Labels: map[string]string{
				model.LabelInstanceType: "m5.large", model.LabelZone: "a",
				model.LabelCapacityType: model.Spot,
			},
		}
	}
	m, lose, empty := *r.machines[id], r.lose, r.empty
	r.mu.Unlock()
	if lose != nil {
		return cloud.LaunchResult{}, lose
	}
	if hold != nil { // the instance exists, the response has not arrived
		select {
		case <-hold:
		case <-ctx.Done():
			return cloud.LaunchResult{}, ctx.Err()
		}
	}
	return cloud.LaunchResult{Instance: m, Exhausted: empty}, nil
}

func (r *region) Terminate(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[id]
	switch {
	case m == nil:
		return fmt.Errorf("terminate %s: %w", id, cloud.ErrNotFound)
	case m.State == cloud.Terminating && !r.lingers:
		delete(r.machines, id)
	default:
		m.State = cloud.Terminating
	}
	return nil
}

func (r *region) Get(_ context.Context, id string) (cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[id]; m != nil {
		return *m, nil
	}
	return cloud.Instance{}, fmt.Errorf("get %s: %w", id, cloud.ErrNotFound)
}

func (r *region) List(context.Context) ([]cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	if r.hidden {
		return nil, nil
	}
	var out []cloud.Instance
	for _, m := range r.machines {
		out = append(out, *m)
	}
	return out, nil
}

func (r *region) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *region) count() (started, there int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.launches, len(r.machines)
}

func (r *region) Interruptions(context.Context) ([]cloud.Interruption, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notices), nil
}

func (r *region) Done(_ context.Context, notices ...cloud.Interruption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, done := range notices {
		r.notices = slices.DeleteFunc(r.notices, func(n cloud.Interruption) bool { return n.Handle == done.Handle })
	}
	return nil
}

func (r *region) Unhealthy(context.Context) ([]cloud.Interruption, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ailing), nil
}

// stray adds an instance that some claim's launch has left behind.
func (r *region) stray(id, claim string, launched time.Time) {
	r.set(func() {
		r.machines[id] = &cloud.Instance{
			ID: id, ProviderID: "aws:///a/" + id, Claim: claim, State: cloud.Running,
			Launched: launched,
		}
	})
}

// state returns an instance's state, "" if there is none.
func (r *region) state(id string) cloud.InstanceState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[id]; m != nil {
		return m.State
	}
	return ""
}

// avoided returns the offerings that the last launch was told to avoid.
func (r *region) avoided() map[model.OfferingKey]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[len(r.requests)-1].Unavailable
}
