package run

import (
	"context"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/cmd/internal/webpage"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view/web"
)

// runWithPage runs the controller and, beside it, the page of its cluster with the controller's prices.
func (s *settings) runWithPage(ctx context.Context, awsCfg awssdk.Config, o controller.Options) error {
	l, others, err := s.pageGate.Listen(ctx, s.page, true)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	p := &webpage.Page{Policy: o.Policy, Gates: o.Gates, Token: httpguard.NewToken()}
	url := web.Link(l.Addr().String(), p.Token)
	if others {
		url = webpage.GatedURL(l)
		p.Certificate, p.Said = &s.pageGate, func(text string) { o.Log.Info(text) }
	}
	o.Log.Info("the page shows the cluster", "address", url)
	t := &target.Cluster{
		REST: o.REST, Of: s.clusterName,
		Options: capture.Options{Prices: "AWS, as the controller has them", Scheduler: o.Scheduler},
	}
	t.Options.Catalog = func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		version string,
	) (capture.Catalog, error) {
		prices := s.catalogOptions(awsCfg)
		prices.KubernetesVersion, prices.Classes, prices.IgnoreReservations = version, classes, !o.Gates.ReservedCapacity
		return aws.New(ctx, prices)
	}
	p.Cluster, o.OnDecision = t, p.Controller.Decided
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Run(ctx, l) })
	group.Go(func() error { return controller.Run(ctx, o) })
	return group.Wait()
}
