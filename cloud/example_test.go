package cloud_test

import (
	"context"
	"fmt"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// shelf is a provider with one instance type, which keeps its instances in a map.
type shelf struct {
	byToken map[string]cloud.Instance
}

func (s *shelf) Name() string { return "shelf" }

func (s *shelf) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	offering := model.Offering{Zone: "a", CapacityType: model.OnDemand, Price: 40_000, Available: true}
	return []model.InstanceType{{Name: "small", Offerings: []model.Offering{offering}}}, nil
}

func (s *shelf) Launch(_ context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	key := model.OfferingKey{Type: "small", Zone: "a", CapacityType: model.OnDemand}
	if req.Unavailable[key] {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %w", req.Claim, cloud.ErrNoCapacity)
	}
	if _, again := s.byToken[req.Token]; !again {
		id := fmt.Sprintf("s-%d", len(s.byToken)+1)
		s.byToken[req.Token] = cloud.Instance{
			ID: id, ProviderID: "shelf:///" + id, Claim: req.Claim, Type: key.Type, Zone: key.Zone,
			CapacityType: key.CapacityType, State: cloud.Running,
		}
	}
	return cloud.LaunchResult{Instance: s.byToken[req.Token]}, nil
}

func (s *shelf) Terminate(_ context.Context, id string) error {
	for token, i := range s.byToken {
		if i.ID == id {
			delete(s.byToken, token)
			return nil
		}
	}
	return fmt.Errorf("terminate %s: %w", id, cloud.ErrNotFound)
}

func (s *shelf) Get(_ context.Context, id string) (cloud.Instance, error) {
	for _, i := range s.byToken {
		if i.ID == id {
			return i, nil
		}
	}
	return cloud.Instance{}, fmt.Errorf("get %s: %w", id, cloud.ErrNotFound)
}

func (s *shelf) List(context.Context) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for _, i := range s.byToken {
		out = append(out, i)
	}
	return out, nil
}

// A launch is idempotent by its token, and a terminated instance is not found.
func ExampleProvider() {
	var p cloud.Provider = &shelf{byToken: map[string]cloud.Instance{}}
	ctx := context.Background()
	for range 2 {
		result, err := p.Launch(ctx, cloud.LaunchRequest{Token: "uid-1", Claim: "general-x7k2p"})
		fmt.Println(result.Instance.ProviderID, err)
	}
	fmt.Println(p.Terminate(ctx, "s-1"))
	_, err := p.Get(ctx, "s-1")
	fmt.Println(err)
	// Output:
	// shelf:///s-1 <nil>
	// shelf:///s-1 <nil>
	// <nil>
	// get s-1: instance not found
}
