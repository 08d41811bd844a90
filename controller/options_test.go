package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/gates"
)

func TestAGateDecidesWhetherSpotReplacesSpot(t *testing.T) {
	for _, open := range []bool{true, false} {
		o, err := Options{
			REST: &rest.Config{}, Gates: gates.Gates{SpotToSpotConsolidation: open},
			Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
				return nil, nil
			},
		}.defaults()
		if err != nil || o.Policy.SpotToSpot != open {
			t.Errorf("gate %v, policy %v, %v", open, o.Policy.SpotToSpot, err)
		}
	}
}

func TestWhatFailsWhileStoppingIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	failure := errors.New("handler was not added to shared informer because it has stopped already")
	if err := stopped(ctx, slog.New(slog.DiscardHandler), failure); !errors.Is(err, failure) {
		t.Errorf("a running controller that fails returns %v", err)
	}
	stop()
	if err := stopped(ctx, slog.New(slog.DiscardHandler), failure); err != nil {
		t.Errorf("a controller that was told to stop returns %v", err)
	}
}
