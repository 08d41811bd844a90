//go:build !noplane

package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/eksmetrics"
	"github.com/nodeless/nodeless/plane/extension"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
	"github.com/nodeless/nodeless/region/incluster"
)

func (l *local) startRegion(run, start context.Context) error {
	l.p.Begin("Simulated AWS region %s", l.o.region)
	offers, err := l.o.offers()
	if err != nil {
		return err
	}
	r, err := region.Open(region.Config{
		Name: l.o.region, Offers: offers, Dir: filepath.Join(l.o.DataDir, "region"), Seed: l.o.seed, Clock: clock.Real{},
		Boot: region.BootTime{Median: l.o.bootTime}, SubnetBits: l.o.subnetBits,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(l.o.keepTypes(), l.o.keepAutoMode(),
		os.WriteFile(localcluster.RegionFile(l.o.DataDir), []byte(l.o.region+"\n"), 0o600)); err != nil {
		_ = r.Close()
		return fmt.Errorf("region: %w", err)
	}
	l.region = r
	l.stops = append(l.stops, func() { _ = r.Close() })
	err = r.SetCluster(region.ClusterInfo{
		Name: localcluster.EKSName, Version: minor(l.plane.Version()), Endpoint: l.plane.APIServerURL(),
		CA: string(l.plane.CABundle()), ServiceCIDR: l.plane.ServiceCIDR(),
		Issuer: plane.Issuer, AutoMode: l.o.eksAutoMode(),
	})
	if err != nil {
		return fmt.Errorf("region: name the cluster to EKS: %w", err)
	}
	if err := l.serveRegion(run, start); err != nil {
		return err
	}
	l.p.Done("%s", l.regionURL)
	return nil
}

// serveRegion listens at its previous address, so that AWS_ENDPOINT_URL stays valid across restarts, or on another
// free port if that one is taken.
func (l *local) serveRegion(run, start context.Context) error {
	portFile := filepath.Join(l.o.DataDir, "region", "address")
	addr := "127.0.0.1:0"
	if kept, err := os.ReadFile(portFile); err == nil && portIsFree(start, string(kept)) {
		addr = string(kept)
	}
	var err error
	if l.regionToken, err = httpguard.KeepToken(localcluster.TokenFile(l.o.DataDir, "region")); err != nil {
		return fmt.Errorf("region: %w", err)
	}
	var administrator awssdk.Credentials // none: any key is the administrator's
	if l.o.enforceIAM {
		if administrator, err = localcluster.LoadAWSKeys(l.o.DataDir); err != nil {
			return err
		}
	}
	eks, err := incluster.New(l.restConfig("nodeless-eks"), l.region, l.log)
	if err != nil {
		return fmt.Errorf("region: client of the cluster behind EKS: %w", err)
	}
	l.eks = eks
	l.eksLogin.opened(l.region, eks)
	l.spawn(run, "EKS", eks.Run)
	l.serveAPI(run, "metrics of the control plane", eksmetrics.API(legacyregistry.DefaultGatherer))
	listening := make(chan net.Addr, 1)
	l.spawn(run, "region", func(ctx context.Context) error {
		return awsapi.Serve(ctx, addr, l.region, awsapi.Options{
			Log: l.log, AdminToken: l.regionToken, Kubernetes: eks, Credentials: administrator,
		}, func(a net.Addr) { listening <- a })
	})
	select {
	case a := <-listening:
		l.regionURL = "http://" + a.String()
		return os.WriteFile(portFile, []byte(a.String()), 0o600)
	case err := <-l.failed:
		return err
	case <-start.Done():
		return context.Cause(start)
	}
}

// serveAPI serves an API beside those of the API server. The cluster works without it.
func (l *local) serveAPI(run context.Context, part string, api extension.API) {
	l.spawn(run, part, func(ctx context.Context) error {
		if err := api.Run(ctx, l.plane.Kubeconfig()); err != nil {
			l.log.Warn("there are no "+part, "error", err)
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// minor returns "1.36" for "v1.36.2", as EKS writes versions.
func minor(version string) string {
	f := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(f[:min(2, len(f))], ".")
}

func portIsFree(ctx context.Context, addr string) bool {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
