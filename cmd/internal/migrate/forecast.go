//go:build !noplane

package migrate

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/migrate/transition"
)

// forecaster returns the function with which a transition forecasts a cluster in a region of AWS.
func forecaster(t *target.Cluster, region string) func(context.Context, []string) (*transition.Forecast, error) {
	read := t.Options
	read.Partial, read.Keep, read.DefaultRegion = true, true, cmp.Or(region, read.DefaultRegion)
	return func(ctx context.Context, nodes []string) (*transition.Forecast, error) {
		c, err := capture.Read(ctx, t.REST, read)
		if err != nil {
			return nil, err
		}
		return without(ctx, c, nodes)
	}
}

// without forecasts a cluster without some nodes.
func without(ctx context.Context, c *capture.Cluster, nodes []string) (*transition.Forecast, error) {
	in := whatif.Input{Cluster: c, Policy: model.Defaults(), Gates: gates.Default(), Horizon: time.Hour}
	moved := map[string]bool{}
	for _, o := range c.Objects() {
		switch o := o.(type) {
		case *corev1.Node:
			if slices.Contains(nodes, o.Name) {
				in.Changes = append(in.Changes, whatif.Change{Delete: "node/" + o.Name})
			}
		case *corev1.Pod:
			if slices.Contains(nodes, o.Spec.NodeName) {
				moved[o.Namespace+"/"+o.Name] = true
			}
		case *karpv1.NodePool: // without the gate, its controller says that it is not Ready
			if o.Spec.Replicas != nil && o.StatusConditions().Root().IsTrue() {
				in.Gates.StaticCapacity = true
			}
		}
	}
	out, err := whatif.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	f := &transition.Forecast{}
	for i := range out.Steps {
		if s := &out.Steps[i]; s.Action == whatif.Launch {
			f.Launches += len(s.Launched)
		}
	}
	for _, u := range out.Unplaced {
		// While nodes are drained, their pods are without a place before they are deleted, too.
		if moved[u.Name] || !u.Before {
			f.Unplaced = append(f.Unplaced, transition.Unplaced{Pod: u.Name, Why: u.Why})
		}
	}
	return f, nil
}
