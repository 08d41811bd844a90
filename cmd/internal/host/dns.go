// Package host implements the commands for machines and pods that serve microVMs: host and dns.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/microvm/network/clusterdns"
	"github.com/nodeless/nodeless/microvm/network/services"
	"github.com/nodeless/nodeless/microvm/network/watch"
)

// dnsOptions are the options of `nodeless dns`.
type dnsOptions struct {
	listen, ready string
	domain        string
	ranges        []string
	resolvConf    string
}

func newDNS() *cobra.Command {
	var o dnsOptions
	c := &cobra.Command{
		Use:   "dns",
		Short: "Serve the cluster's DNS, in a pod",
		Long: `Answers queries for the Services of the cluster in whose pod it runs, and
forwards all others to the pod's own name servers. It needs a service account
that may list and watch Services and EndpointSlices.

"nodeless up" has the same DNS in its own process; in a pod it outlives that
process. examples/kube-dns.yaml runs it in a microVM, behind the Service
kube-dns.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "0.0.0.0:53", "address and port, for UDP and TCP")
	f.StringVar(&o.ready, "ready", "0.0.0.0:8181",
		"address and port of /ready over HTTP, which returns 200 once all Services are known")
	f.StringVar(&o.domain, "domain", "cluster.local", "the cluster's domain")
	f.StringSliceVar(&o.ranges, "reverse", []string{"10.0.0.0/8"},
		"address ranges of pods and Services, for reverse lookups")
	f.StringVar(&o.resolvConf, "resolv-conf", "/etc/resolv.conf", "file that names the servers for all other queries")
	return c
}

func (o *dnsOptions) run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	at, err := netip.ParseAddrPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: give an address and a port such as 0.0.0.0:53", o.listen)
	}
	zone := clusterdns.Zone{Domain: strings.Trim(o.domain, ".") + "."}
	for _, text := range o.ranges {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--reverse %q: give ranges such as 10.96.0.0/16", text)
		}
		zone.Ranges = append(zone.Ranges, p)
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("the API server: %w; \"nodeless dns\" runs in a pod with a service account", err)
	}
	cfg.UserAgent = "nodeless-dns"
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("the API server: %w", err)
	}
	return o.serve(ctx, watch.New(kube, nil), at, zone, log)
}

// serve answers queries once all Services are known, until ctx is done.
func (o *dnsOptions) serve(ctx context.Context, w *watch.Watch, at netip.AddrPort, zone clusterdns.Zone,
	log *slog.Logger,
) error {
	group, ctx := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	group.Go(func() error { return w.Run(ctx) })
	group.Go(func() error { return o.tellReady(ctx, ready) })
	group.Go(func() error {
		if !w.Synced(ctx) {
			return nil
		}
		var now atomic.Pointer[services.Snapshot]
		now.Store(w.Snapshot())
		server, err := clusterdns.ListenAt(ctx, at, zone, now.Load, clusterdns.NewResolvers(o.resolvConf, at.Addr()))
		if err != nil {
			return err
		}
		log.Info("names of the cluster are answered", "at", server.At(), "domain", zone.Domain)
		close(ready)
		group.Go(func() error { return server.Run(ctx) })
		for {
			select {
			case <-w.Changed:
				now.Store(w.Snapshot())
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// tellReady serves /ready.
func (o *dnsOptions) tellReady(ctx context.Context, ready <-chan struct{}) error {
	server := httpguard.NewServer(5*time.Second, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
			_, _ = fmt.Fprintln(w, "ok")
		default:
			http.Error(w, "the Services are not known yet", http.StatusServiceUnavailable)
		}
	}))
	server.Addr = o.ready
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--ready: %w", err)
	}
	return nil
}

// Commands returns the commands for machines and pods that serve microVMs.
func Commands() []*cobra.Command {
	return []*cobra.Command{newHost(), newDNS()}
}
