//go:build !noplane

package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/microvm/host"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/network/overlay"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/view/web"
)

type upOptions struct {
	localcluster.Selector        // resolved: an absolute data directory
	cluster               string // its name
	region                string
	bootTime              time.Duration
	seed                  uint64
	subnetBits            int
	demo                  bool
	addons                bool
	clusterAddons         bool
	detach                bool
	kubeconfig            bool
	controller            bool
	fargate               bool
	enforceIAM            bool
	microVMs              bool
	hostAddress           string
	guestKernel           string
	engine                string
	mirrors               []string
	readyTimeout          time.Duration
	policyFlags           policyflags.Flags
	policy                model.Policy
	gates                 gates.Gates
	scheduler             translate.SchedulerConfig
	schedulerDocument     []byte // nil = kube-scheduler's defaults
	auditLog              string
	autoMode              string   // built-in NodePools of EKS Auto Mode, separated by commas; "" = it is off
	autoPools             []string // the same, parsed
	typesFile             string
	page                  string
	pageAsked             bool         // someone chose it
	types                 *catalog.Own // nil = AWS's
	typesText             []byte       // the text of types, if they are new
}

func newUp() *cobra.Command {
	var o upOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster on this machine, with a simulated AWS region",
		Long: `Starts a Kubernetes control plane, a simulated AWS region that speaks AWS's own
protocols, and the Nodeless controller, all in this process. Nodes are
simulated: they boot in --boot-time, register, and pretend to run pods. Pods of
a FargateProfile really run, each in a microVM of this machine (QEMU). The
cluster has EKS's add-ons aws-node, kube-proxy and coredns.

The control plane, the region and the page listen on loopback and require
credentials; load balancers require none, and as root microVMs have a network of
their own. It needs no root, no Docker and no network.

The context nodeless-NAME is added to your kubeconfig; your current context
stays as it is. State is kept in --data-dir and survives restarts. Ctrl-C or
"nodeless down" ends the cluster. Clusters with other names can run beside it.`,
		Example: `  # Watch a hundred pods get nodes
  nodeless up --demo

  # In the background, until "nodeless down"
  nodeless up --detach

  # A second cluster, until "nodeless down --name b"
  nodeless up --name b --detach

  # EKS Auto Mode: its NodePools and NodeClass instead of Karpenter's
  nodeless up --auto-mode

  # Another region, with nodes that boot as slowly as real ones
  nodeless up --region us-east-1 --boot-time 45s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.place(); err != nil {
				return err
			}
			if err := o.settleRegion(cmd.Flags().Changed("region")); err != nil {
				return err
			}
			if err := cmp.Or(o.settleTypes(), o.settleAutoMode(cmd.Flags())); err != nil {
				return err
			}
			o.pageAsked = cmd.Flags().Changed("page")
			if err := o.validate(); err != nil {
				return err
			}
			if o.detach {
				return detach(cmd.Context(), o, o.arguments(cmd.Flags()))
			}
			return up(cmd.Context(), o, progress.New(os.Stdout))
		},
	}
	o.addFlags(c.Flags())
	_ = c.RegisterFlagCompletionFunc("region",
		cobra.FixedCompletions(catalog.Regions(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// place determines the data directory and the name of the cluster.
func (o *upOptions) place() error {
	var err error
	if o.DataDir, err = o.Resolve(); err != nil {
		return err
	}
	if _, err := datadir.Read(o.DataDir); errors.Is(err, fs.ErrPermission) {
		return err // before settings are read there
	}
	o.cluster = cmp.Or(o.Name, localcluster.NameIn(o.DataDir))
	return nil
}

func (o *upOptions) addFlags(f *pflag.FlagSet) {
	o.Add(f)
	f.StringVar(&o.region, "region", "us-west-2", "AWS region to simulate: its types, zones and prices")
	f.StringVar(&o.typesFile, "types", "",
		"file of instance types that the region offers instead of AWS's: names, sizes, prices "+
			"(examples/types.json)")
	f.DurationVar(&o.bootTime, "boot-time", 5*time.Second,
		"median time from launch to a registered node; nodes vary around it")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the region's random events: capacity, spot prices, boot times")
	f.IntVar(&o.subnetBits, "subnet-bits", 16,
		"prefix length of the subnet in each zone, 16 to 28: 16 has 65,531 addresses, 22 has 1,019")
	f.BoolVar(&o.demo, "demo", false, "apply the example Deployment of 100 pods and show what happens")
	f.BoolVar(&o.addons, "addons", true,
		"install EKS's add-ons: DaemonSets aws-node and kube-proxy, Deployment coredns, which needs a node "+
			"(examples/addons.yaml)")
	f.StringVar(&o.autoMode, "auto-mode", "",
		"make it a cluster of EKS Auto Mode with these built-in NodePools; the flag alone names "+autoModePools+
			". It then has no add-ons unless --addons is given")
	f.Lookup("auto-mode").NoOptDefVal = autoModePools
	f.BoolVar(&o.clusterAddons, "cluster-addons", false,
		"also install what production clusters usually run on every node: node-exporter, fluent-bit, "+
			"ebs-csi-node (examples/cluster-addons.yaml)")
	f.BoolVar(&o.detach, "detach", false, "return when the cluster is ready, and keep it running in the background")
	f.BoolVar(&o.kubeconfig, "merge-kubeconfig", true, "add the context nodeless-NAME to your kubeconfig")
	f.BoolVar(&o.controller, "controller", true,
		`run the controller, too; with --controller=false run it yourself: "nodeless run"`)
	f.BoolVar(&o.enforceIAM, "enforce-iam", false,
		"refuse AWS credentials that are neither those of \"nodeless env\" nor made with IAM; what IAM made may "+
			"do what its policies allow, with or without this flag")
	f.BoolVar(&o.fargate, "fargate", true, "act on FargateProfiles: each pod that one selects gets a microVM of its own")
	f.BoolVar(&o.microVMs, "microvms", true,
		"run microVMs on this machine, with QEMU; without, pods of FargateProfiles stay Pending and say so")
	f.StringVar(&o.hostAddress, "host-address", "127.0.0.1",
		fmt.Sprintf("this machine's address for microVM hosts that join, at which their pods reach those of this "+
			"machine over UDP port %d (WireGuard); a loopback address is for hosts on this machine", overlay.Port))
	f.StringVar(&o.guestKernel, "guest-kernel", "",
		"directory with the microVMs' kernel, as scripts/guest-kernel makes it (default: nodeless/kernel in "+
			"your cache directory, /var/cache or the system's own)")
	f.StringVar(&o.engine, "engine", "auto", localcluster.EngineUsage)
	f.StringArrayVar(&o.mirrors, "registry-mirror", nil,
		"REGISTRY=URL of a mirror that is tried before the registry itself, such as "+
			"docker.io=https://mirror.example:5000; may be repeated")
	f.StringVar(&o.auditLog, "audit-log", "",
		"file in which the API server logs every request, without the contents of secrets; it is rotated at "+
			"512 MB, keeping one old file")
	f.StringVar(&o.page, "page", "127.0.0.1:8088",
		"loopback address and port of the page that shows the cluster; if the default port is taken, another "+
			`one is used; "" = no page`)
	f.DurationVar(&o.readyTimeout, "ready-timeout", 2*time.Minute, "give up if the cluster is not ready after this time")
	o.policyFlags.Add(f)
}

// settleRegion makes an existing cluster stay in its region.
func (o *upOptions) settleRegion(asked bool) error {
	kept, err := os.ReadFile(localcluster.RegionFile(o.DataDir))
	home := strings.TrimSpace(string(kept))
	switch {
	case err != nil || home == "" || home == o.region:
		return nil //nolint:nilerr // a new cluster; what else is wrong with the folder is said when it is opened
	case asked:
		return fmt.Errorf("--region %s: the cluster in %s lives in %s; leave the flag out, or make another cluster with "+
			"--data-dir", o.region, o.DataDir, home)
	}
	o.region = home
	return nil
}

func (o *upOptions) validate() error {
	if len(catalog.Of(o.region).Zones()) == 0 {
		return fmt.Errorf("--region %q: not in the catalogue; there are %v", o.region, catalog.Regions())
	}
	if o.bootTime < 0 || o.bootTime > time.Hour {
		return fmt.Errorf("--boot-time %s: give a time between 0s and 1h", o.bootTime)
	}
	if o.subnetBits < 16 || o.subnetBits > 28 {
		return fmt.Errorf("--subnet-bits %d: a VPC takes subnets from /16 to /28", o.subnetBits)
	}
	if o.page != "" {
		if err := web.Check(o.page); err != nil {
			return fmt.Errorf("--page: %w", err)
		}
	}
	if o.readyTimeout <= 0 {
		return fmt.Errorf("--ready-timeout %s: give a time above 0s", o.readyTimeout)
	}
	if a, err := netip.ParseAddr(o.hostAddress); err != nil || !a.Is4() || a.IsUnspecified() {
		return fmt.Errorf("--host-address %q: give an IPv4 address of this machine", o.hostAddress)
	}
	if _, err := host.Engine(o.engine); err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	if _, err := image.ParseMirrors(o.mirrors); err != nil {
		return fmt.Errorf("--registry-mirror: %w", err)
	}
	var err error
	if o.policy, o.gates, err = o.policyFlags.Resolve(); err != nil {
		return err
	}
	return o.settleScheduler()
}

// settleScheduler reads --scheduler-config, with which kube-scheduler starts, too.
func (o *upOptions) settleScheduler() error {
	document, err := o.policyFlags.SchedulerDocument()
	if err != nil || len(document) == 0 {
		return err
	}
	if err := plane.CheckSchedulerConfig(document); err != nil {
		return fmt.Errorf("--scheduler-config: kube-scheduler would not start with it: %w", err)
	}
	if o.scheduler, err = translate.ParseSchedulerConfig(document); err != nil {
		return fmt.Errorf("--scheduler-config: %w", err)
	}
	o.schedulerDocument = document
	return nil
}

// up runs the cluster until ctx is done or a part of it fails.
func up(ctx context.Context, o upOptions, p *progress.Printer) error {
	if _, err := datadir.Prepare(o.DataDir, plane.Version()); err != nil {
		return err
	}
	l := &local{o: o, p: p}
	started := time.Now()
	startCtx, cancel := context.WithTimeoutCause(ctx, o.readyTimeout,
		fmt.Errorf("not ready after %s (--ready-timeout); the logs are in %s", o.readyTimeout,
			filepath.Join(o.DataDir, "logs")))
	defer cancel()
	err := l.start(ctx, startCtx)
	defer l.stop()
	if err != nil {
		p.Fail()
		if cause := context.Cause(startCtx); cause != nil && ctx.Err() == nil {
			return fmt.Errorf("%w (%w)", cause, err)
		}
		return err
	}
	l.welcome(time.Since(started))
	if o.demo {
		if err := l.demo(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		p.EndStatus()
		return nil // Ctrl-C is the normal end
	case err := <-l.failed:
		p.EndStatus()
		return err
	}
}

// welcome prints where things are and what to try next.
func (l *local) welcome(took time.Duration) {
	l.p.Line("")
	l.p.Line("Ready in %.1fs. Nodes are simulated and boot in about %s; the control plane and the AWS protocol are real.",
		took.Seconds(), l.o.bootTime)
	hints(l.p, l.session, l.o.DataDir, l.microVMs != nil)
	l.p.Line("Stop it with Ctrl-C, or with:")
	l.p.Line("  %s", localcluster.CommandFor("down", l.o.DataDir, l.o.cluster))
	l.p.Line("")
}
