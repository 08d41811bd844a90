package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Options configure Run.
type Options struct {
	REST *rest.Config // required
	// Provider creates the cloud provider once node classes can be read; required. kubernetesVersion is major.minor.
	Provider func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		kubernetesVersion string) (cloud.Provider, error)
	// ClassKinds are kinds of node classes besides EC2NodeClass. Run does not watch kinds that the cluster does not
	// serve when it begins.
	ClassKinds []status.Kind
	// AutoMode enables EKS Auto Mode: the kind NodeClass is accepted and the mode's built-in objects are maintained.
	// nil = off, as on EKS, where AWS does both.
	AutoMode *automode.Settings
	// NodeGroupTags are tag keys: a NodeGroup is created for each Auto Scaling group that has a tag with each of them;
	// none = for no group.
	NodeGroupTags []string
	Policy        model.Policy              // the gate SpotToSpotConsolidation decides Policy.SpotToSpot
	Gates         gates.Gates               // which optional parts are on
	Scheduler     translate.SchedulerConfig // of the cluster's kube-scheduler
	Clock         clock.Clock               // default the real one
	Log           *slog.Logger              // default slog.Default
	// OnDecision is called after each decision cycle; may be nil.
	OnDecision func(cycle.Decision)
	// OnReady is called once, when the cache has synced and, with leader election, this process leads; may be nil.
	OnReady func()
	DataDir string // plans that failed the check are saved below it; "" = nowhere
	// MetricsAddress and HealthAddress are where /metrics, /healthz and /readyz are served; "" = nowhere.
	MetricsAddress, HealthAddress string
	Version                       string // of this program, for karpenter_build_info
	// Profiling serves /debug/pprof beside /metrics.
	Profiling bool
	// Unobserved disables the metrics of individual pods, nodes, pools and conditions.
	Unobserved bool
	// Parallel is the number of CPUs to use; default 1.
	Parallel int
	// ClassRefresh is how often node classes are resolved again; default a minute.
	ClassRefresh time.Duration
	// BatchIdle and BatchMax limit how long changes are batched; 0 = the defaults of cycle.Options.
	BatchIdle, BatchMax time.Duration
	// LeaderElection makes only one of several replicas act: the holder of the Lease LeaderName (default DefaultLease)
	// in LeaderNamespace (default kube-system). Identity names this replica (default: the host name).
	LeaderElection                        bool
	LeaderName, LeaderNamespace, Identity string
	// Fargate enables FargateProfiles, which run pods in microVMs; nil = FargateProfiles are ignored.
	Fargate *Fargate
	// Service is the controller's own; may be empty. Without Fargate, webhooks that refer to it are deleted.
	Service client.ObjectKey
	// IgnoreDRA disables dynamic resource allocation: pods with ResourceClaims are not planned for.
	IgnoreDRA bool
	// QPS limits requests to the API server; 0 = the limit of REST, or 200 per second.
	QPS float32
}

func (o Options) defaults() (Options, error) {
	if o.REST == nil || o.Provider == nil {
		return o, errors.New("controller: REST and Provider are required")
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Parallel <= 0 {
		o.Parallel = 1
	}
	if o.AutoMode != nil { // Auto Mode always repairs nodes and supports static pools
		o.Gates.NodeRepair, o.Gates.StaticCapacity = true, true
	}
	o.Policy.SpotToSpot = o.Gates.SpotToSpotConsolidation
	o.REST = rest.CopyConfig(o.REST)
	if o.QPS > 0 {
		o.REST.QPS, o.REST.Burst = o.QPS, int(2*o.QPS)
	} else if o.REST.QPS == 0 {
		o.REST.QPS, o.REST.Burst = 200, 400
	}
	return o, nil
}
