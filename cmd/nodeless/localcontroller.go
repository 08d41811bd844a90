//go:build !noplane

package main

import (
	"context"
	"fmt"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/microvm"
)

func (l *local) startController(run, start context.Context) error {
	if !l.o.controller || !l.o.fargate {
		// An earlier run may have left them: nobody answers, and no pod could be created.
		if err := admission.Uninstall(start, l.client); err != nil {
			return err
		}
	}
	if !l.o.controller {
		l.p.Line("   The controller does not run. Start it with:")
		l.p.Line("   eval $(%s) && %s run --cluster-name %s --interruption-queue %s",
			commandFor("env", l.o.dataDir, l.o.cluster), selfName(), eksName, eksName)
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

// fargate is what the controller needs to act upon FargateProfiles; nil if it is not to. Its webhook is on loopback,
// as all else.
func (l *local) fargate(ctx context.Context) (*controller.Fargate, error) {
	if !l.o.fargate {
		return nil, nil
	}
	f, err := listenForPods(ctx, "127.0.0.1:0", "")
	if err != nil {
		return nil, err
	}
	f.At = f.At.WithSecret(httpguard.NewToken())
	if l.microVMs != nil {
		f.Hosts = []microvm.Host{l.microVMs}
	}
	return f, nil
}

// controllerOptions is the controller inside `nodeless up`: it reaches the region over the wire, like any AWS client.
func (l *local) controllerOptions(ready func()) controller.Options {
	ui := launchUI{l.p}
	return controller.Options{
		REST: l.restConfig("nodeless-controller"), Policy: l.policy, Gates: l.gates, Version: version, Log: l.log,
		Clock: clock.Real{}, DataDir: l.o.dataDir, OnReady: ready,
		OnDecision: func(d cycle.Decision) {
			if l.o.demo {
				ui.show(d)
			}
		},
		Provider: awsProvider(aws.Options{
			AWS: awssdk.Config{
				Region: l.o.region, BaseEndpoint: &l.regionURL,
				Credentials: credentials.NewStaticCredentialsProvider("nodeless", "nodeless", ""),
			},
			ClusterName: eksName, ClusterEndpoint: l.plane.APIServerURL(), ClusterCA: l.plane.CABundle(),
			ServiceCIDR: l.plane.ServiceCIDR(), InterruptionQueue: eksName, TypeLabels: typeLabels(l.o.types), Log: l.log,
		}),
	}
}
