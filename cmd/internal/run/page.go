package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

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
)

// runWithPage runs the controller and, beside it, the page of its cluster with the controller's prices.
func (s *settings) runWithPage(ctx context.Context, awsCfg awssdk.Config, o controller.Options) error {
	l, others, err := s.pageGate.Listen(ctx, s.page, true)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	p := &webpage.Page{Policy: o.Policy, Gates: o.Gates}
	if others {
		p.Certificate, p.Said = &s.pageGate, func(text string) { o.Log.Info(text) }
		o.Log.Info("the page shows the cluster", "address", webpage.GatedURL(l))
	} else {
		var forget func()
		if p.Token, forget, err = pageToken(o.Log, l.Addr().String()); err != nil {
			_ = l.Close()
			return err
		}
		defer forget()
	}
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

// pageToken makes the token of a page on a loopback address, and logs where both are. Logs are collected and read by
// many, so the token itself is in a file that only this user may read, until forget is called.
func pageToken(log *slog.Logger, address string) (token string, forget func(), err error) {
	dir, err := os.MkdirTemp("", "nodeless-page-") // of a name that nobody else can have taken
	if err != nil {
		return "", nil, fmt.Errorf("--page: make a directory for its token: %w; set TMPDIR to one that can be written", err)
	}
	forget = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "token")
	if token, err = httpguard.KeepToken(file); err != nil {
		forget()
		return "", nil, fmt.Errorf("--page: %w", err)
	}
	log.Info("the page shows the cluster: open its address followed by ?token= and the token in the file",
		"address", "http://"+address+"/", "tokenFile", file)
	return token, forget, nil
}
