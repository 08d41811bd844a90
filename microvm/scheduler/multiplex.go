package scheduler

import (
	"context"
	"strings"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
)

// Multiplex returns a cloud whose NodeClaims of FargateProfiles are microVMs of s and all others instances of base. It has the
// abilities of base.
func (s *Scheduler) Multiplex(base cloud.Provider) cloud.Provider {
	return multiplexer{base, s.provider}
}

// multiplexer asks the base about everything but microVMs.
type multiplexer struct {
	cloud.Provider
	vms *provider
}

func isMicroVM(id string) bool { return strings.HasPrefix(id, idPrefix) }

// Launch implements cloud.Provider.
func (m multiplexer) Launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	if req.Class.Group == v1alpha1.GroupVersion.Group && req.Class.Kind == classKind {
		return m.vms.launch(ctx, req)
	}
	return m.Provider.Launch(ctx, req)
}

// Terminate implements cloud.Provider.
func (m multiplexer) Terminate(ctx context.Context, id string) error {
	if isMicroVM(id) {
		return m.vms.terminate(ctx, id)
	}
	return m.Provider.Terminate(ctx, id)
}

// Get implements cloud.Provider.
func (m multiplexer) Get(ctx context.Context, id string) (cloud.Instance, error) {
	if isMicroVM(id) {
		return m.vms.get(ctx, id)
	}
	return m.Provider.Get(ctx, id)
}

// List implements cloud.Provider.
func (m multiplexer) List(ctx context.Context) ([]cloud.Instance, error) {
	instances, err := m.Provider.List(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := m.vms.list(ctx)
	return append(instances, vms...), err
}

// Interruptions returns the base's interruptions; it blocks if the base has none.
func (m multiplexer) Interruptions(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := m.Provider.(cloud.Interrupter); ok {
		return source.Interruptions(ctx)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Done implements cloud.Interrupter.
func (m multiplexer) Done(ctx context.Context, notices ...cloud.Interruption) error {
	if source, ok := m.Provider.(cloud.Interrupter); ok {
		return source.Done(ctx, notices...)
	}
	return nil
}

// Unhealthy implements cloud.HealthChecker.
func (m multiplexer) Unhealthy(ctx context.Context) ([]cloud.Interruption, error) {
	if source, ok := m.Provider.(cloud.HealthChecker); ok {
		return source.Unhealthy(ctx)
	}
	return nil, nil
}

// Drifted implements cloud.Drifter.
func (m multiplexer) Drifted(ctx context.Context, instance cloud.Launched) (string, error) {
	if source, ok := m.Provider.(cloud.Drifter); ok && !isMicroVM(instance.InstanceID) {
		return source.Drifted(ctx, instance)
	}
	return "", nil
}

// Ended implements cloud.Ender.
func (m multiplexer) Ended(ctx context.Context, id string) (cloud.Ending, error) {
	if source, ok := m.Provider.(cloud.Ender); ok && !isMicroVM(id) {
		return source.Ended(ctx, id)
	}
	return cloud.Ending{}, nil
}

// RepairPolicies implements cloud.Repairer.
func (m multiplexer) RepairPolicies() []cloud.RepairPolicy {
	if source, ok := m.Provider.(cloud.Repairer); ok {
		return source.RepairPolicies()
	}
	return nil
}
