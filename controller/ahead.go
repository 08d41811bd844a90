package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/ahead"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// newAhead builds what launches nodes ahead of pods that are yet to be created.
func (r *components) newAhead(ctx context.Context, o Options, api client.Client,
	recorder record.EventRecorder,
) *ahead.Controller {
	planner := ahead.Planner{State: r.state, Provision: engine.Provision, Policy: o.Policy, Boots: &ahead.Boots{}}
	if r.fargate != nil {
		planner.Apart = func(pod *corev1.Pod) bool {
			return fargate.Choose(r.fargateProfiles(ctx), pod).Profile != nil
		}
	}
	return ahead.New(ahead.Options{
		Planner: planner, Cache: r.cache, Client: api, Recorder: recorder, Registry: r.registry, Clock: o.Clock, Log: o.Log,
	})
}
