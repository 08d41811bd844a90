package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/ahead"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// newAhead returns the controller that launches nodes before pods need them.
func (r *components) newAhead(ctx context.Context, o Options, api client.Client,
	recorder record.EventRecorder,
) (*ahead.Controller, error) {
	planner := ahead.Planner{
		State: r.state, Provision: engine.Provision, Policy: o.Policy, Boots: &ahead.Boots{},
		Apart: func(pod *corev1.Pod) bool { return r.apart(ctx, pod) },
	}
	return ahead.New(ctx, ahead.Options{
		Planner: planner, Cache: r.cache, CronJobs: readable(api, o.Log)(ctx, &batchv1.CronJob{}), Recorder: recorder,
		Registry: r.registry, Clock: o.Clock, Log: o.Log,
	})
}

// apart reports whether a pod that is yet to be created will run in a microVM.
func (r *components) apart(ctx context.Context, pod *corev1.Pod) bool {
	return r.fargate != nil && fargate.Choose(r.fargateProfiles(ctx), pod).Profile != nil
}
