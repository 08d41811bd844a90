//go:build !noplane

package up

import (
	"context"
	"fmt"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

// eksWebhooks is the name under which EKS registers the webhook for Fargate pods.
const eksWebhooks = "0500-amazon-eks-fargate-mutation.amazonaws.com"

func (l *local) startController(run, start context.Context) error {
	if !l.o.controller || !l.o.fargate {
		// An earlier run may have left webhooks that nobody serves, which would block the creation of pods.
		if err := admission.Uninstall(start, l.client, eksWebhooks); err != nil {
			return err
		}
	}
	if !l.o.controller {
		l.p.Line("   The controller does not run. Start it with:")
		l.p.Line("   eval $(%s) && %s run --cluster-name %s --interruption-queue %s",
			localcluster.CommandFor("env", l.o.DataDir, l.o.cluster), program.Name(), localcluster.EKSName, localcluster.EKSName)
		return nil
	}
	l.p.Begin("Controller")
	profiles, err := l.fargate(start)
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	var once sync.Once
	l.spawn(run, "controller", func(ctx context.Context) error {
		o := l.controllerOptions(func() { once.Do(func() { close(ready) }) })
		o.Fargate = profiles
		return controller.Run(ctx, o)
	})
	select {
	case <-ready:
		l.p.Done("")
		return nil
	case err := <-l.failed:
		return err
	case <-start.Done():
		return fmt.Errorf("controller: %w", context.Cause(start))
	}
}

// awsConfig returns the configuration with which the controllers reach the simulated region.
func (l *local) awsConfig() awssdk.Config {
	return awssdk.Config{
		Region: l.o.region, BaseEndpoint: &l.regionURL, Credentials: localcluster.AWSCredentials(l.o.DataDir),
	}
}

// fargate returns what the controller needs to act on FargateProfiles; nil if it should not. Its webhook is on
// loopback, like everything else.
func (l *local) fargate(ctx context.Context) (*controller.Fargate, error) {
	if !l.o.fargate {
		return nil, nil
	}
	at, listener, err := admission.Listen(ctx, "127.0.0.1:0", "")
	if err != nil {
		return nil, err
	}
	f := &controller.Fargate{
		Hosts: l.hosts, At: at.Named(eksWebhooks).WithSecret(httpguard.NewToken()), Listener: listener,
	}
	return f, nil
}

// controllerOptions configures the controller inside `nodeless up`, which reaches the region over the network, like
// any AWS client.
func (l *local) controllerOptions(ready func()) controller.Options {
	ui := launchUI{l.p}
	return controller.Options{
		REST: l.restConfig("nodeless-controller"), Policy: l.o.policy, Gates: l.o.gates, Scheduler: l.o.scheduler,
		Version: program.Version, Log: l.log, AutoMode: l.o.autoModeSettings(),
		Clock: clock.Real{}, DataDir: l.o.DataDir, OnReady: ready,
		OnDecision: func(d cycle.Decision) {
			l.page.Controller.Decided(d)
			if l.o.demo {
				ui.show(d)
			}
		},
		Provider: target.AWSProvider(aws.Options{
			AWS:         l.awsConfig(),
			ClusterName: localcluster.EKSName, ClusterEndpoint: l.plane.APIServerURL(), ClusterCA: l.plane.CABundle(),
			ServiceCIDR: l.plane.ServiceCIDR(), InterruptionQueue: localcluster.EKSName,
			TypeLabels: localcluster.TypeLabels(l.o.types), Log: l.log,
			ClusterARN:         "arn:aws:eks:" + l.region.Name() + ":" + region.AccountID + ":cluster/" + localcluster.EKSName,
			IgnoreReservations: !l.o.gates.ReservedCapacity,
		}),
	}
}
