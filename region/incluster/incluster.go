// Package incluster is the Kubernetes behind the EKS of a simulated region. An EKS Fargate profile is a
// FargateProfile object of the cluster, so the AWS API shows what kubectl creates and vice versa. Add-ons are
// workloads of the cluster. Nodes of managed node groups are drained before their instances terminate. New pods
// request a branch interface if a SecurityGroupPolicy selects them.
package incluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// Cluster implements awsapi.Kubernetes. It is safe for concurrent use.
type Cluster struct {
	config    *rest.Config
	client    client.Client
	clientset kubernetes.Interface
	region    *region.Region
	log       *slog.Logger
	deleted   signal.Signal // set when a profile is to be deleted
}

var _ awsapi.Kubernetes = (*Cluster)(nil)

// New returns the cluster at a REST configuration, which must be an administrator's, behind the EKS of a region. The
// CRD of FargateProfile may be missing: until it is installed, there are no profiles.
func New(cfg *rest.Config, r *region.Region, log *slog.Logger) (*Cluster, error) {
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known), v1beta1.AddToScheme(known)); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: known})
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{config: cfg, client: c, clientset: clientset, region: r, log: log, deleted: signal.New()}, nil
}

// Run deletes the pods of profiles being deleted and drains the nodes of node groups, until ctx is done.
func (c *Cluster) Run(ctx context.Context) error {
	var drains sync.WaitGroup
	defer drains.Wait()
	drains.Go(func() { c.drainNodes(ctx) })
	c.deleted.Set() // deletions that an earlier process started
	for {
		select {
		case <-c.deleted:
			c.finish(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
