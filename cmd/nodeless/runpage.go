package main

import (
	"context"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/internal/controller"
	"github.com/nodeless/nodeless/internal/live"
)

// runWithPage runs the controller and, beside it, the page of its cluster with the prices that the controller has.
func (s *settings) runWithPage(ctx context.Context, awsCfg awssdk.Config, o controller.Options) error {
	l, err := listenPage(ctx, s.page, true)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	o.Log.Info("the page shows the cluster", "address", pageURL(l))
	t := &target{rest: o.REST, of: s.clusterName, options: live.Options{Prices: "AWS, as the controller has them"}}
	t.options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass, version string) (live.Catalog, error) {
		return aws.New(ctx, aws.Options{AWS: awsCfg, ClusterName: s.clusterName, KubernetesVersion: version, Classes: classes, IsolatedVPC: s.isolatedVPC})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return (&page{t: t, policy: o.Policy}).run(ctx, l) })
	group.Go(func() error { return controller.Run(ctx, o) })
	return group.Wait()
}
