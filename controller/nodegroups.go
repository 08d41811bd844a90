package controller

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/nodegroup"
	"github.com/nodeless/nodeless/controller/status"
)

// addNodeGroup makes NodeGroup a kind of node class if the API server serves it, and reports whether it does.
func addNodeGroup(d discovery.ServerResourcesInterface, classes *status.Classes) (bool, error) {
	missing, err := missingCRDs(d, []crd{{v1alpha1.GroupVersion.String(), "nodegroups"}})
	switch {
	case err != nil:
		return false, fmt.Errorf("controller: whether there are NodeGroups: %w", err)
	case len(missing) > 0:
		return false, nil
	}
	classes.AddNodeGroup()
	return true, nil
}

// buildNodeGroups builds the controller of NodeGroups if the API server serves that kind and the cloud has Auto
// Scaling groups.
func (r *components) buildNodeGroups(ctx context.Context, o Options, served bool, provider cloud.Provider,
	api client.Client, recorder record.EventRecorder,
) (err error) {
	groups, ok := provider.(nodegroup.Cloud)
	if !ok || !served {
		return nil
	}
	r.nodeGroups, err = nodegroup.New(ctx, nodegroup.Options{
		Cloud: groups, Cache: r.cache, Client: api, Cluster: r.state, Recorder: recorder, Clock: o.Clock, Log: o.Log,
		Tags: o.NodeGroupTags,
	})
	if err != nil {
		return fmt.Errorf("controller: node groups: %w", err)
	}
	return nil
}
