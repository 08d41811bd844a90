package scheduler

import (
	"context"
	"strings"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
)

// Beside is a cloud whose NodeClaims of FargateProfiles are microVMs of s, and all others machines of base. It has the
// abilities of base.
func (s *Scheduler) Beside(base cloud.Provider) cloud.Provider { return both{base, s} }

// both asks the base about everything but microVMs.
type both struct {
	cloud.Provider
	vms *Scheduler
}

func isMicroVM(id string) bool { return strings.HasPrefix(id, idPrefix) }

func (b both) Launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	if req.Class.Group == v1alpha1.GroupVersion.Group && req.Class.Kind == classKind {
		return b.vms.launch(ctx, req)
	}
	return b.Provider.Launch(ctx, req)
}

func (b both) Terminate(ctx context.Context, id string) error {
	if isMicroVM(id) {
		return b.vms.terminate(ctx, id)
	}
	return b.Provider.Terminate(ctx, id)
}

func (b both) Get(ctx context.Context, id string) (cloud.Instance, error) {
	if isMicroVM(id) {
		return b.vms.get(ctx, id)
	}
	return b.Provider.Get(ctx, id)
}

func (b both) List(ctx context.Context) ([]cloud.Instance, error) {
	machines, err := b.Provider.List(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := b.vms.list(ctx)
	return append(machines, vms...), err
}

// Interruptions are the base's; one that has none never says anything.
func (b both) Interruptions(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := b.Provider.(cloud.Interrupter); ok {
		return source.Interruptions(ctx)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (b both) Done(ctx context.Context, notices ...cloud.Interruption) error {
	if source, ok := b.Provider.(cloud.Interrupter); ok {
		return source.Done(ctx, notices...)
	}
	return nil
}

func (b both) Unhealthy(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := b.Provider.(cloud.HealthChecker); ok {
		return source.Unhealthy(ctx)
	}
	return nil, nil
}

func (b both) Drifted(ctx context.Context, m cloud.Launched) (string, error) {
	if source, ok := b.Provider.(cloud.Drifter); ok && !isMicroVM(m.InstanceID) {
		return source.Drifted(ctx, m)
	}
	return "", nil
}

func (b both) Ended(ctx context.Context, id string) (cloud.Ending, error) {
	if source, ok := b.Provider.(cloud.Ender); ok && !isMicroVM(id) {
		return source.Ended(ctx, id)
	}
	return cloud.Ending{}, nil
}

func (b both) RepairPolicies() []cloud.RepairPolicy {
	if source, ok := b.Provider.(cloud.Repairer); ok {
		return source.RepairPolicies()
	}
	return nil
}
