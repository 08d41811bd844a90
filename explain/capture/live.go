// Package capture makes the engine's Snapshot of any cluster from a kubeconfig with read permissions. It writes
// nothing, takes no lease, and calls no cloud API unless configured to: instance types and prices come from the
// built-in catalogue.
//
// Such a Snapshot lacks what only the controller's process knows: which offerings recently ran out of capacity, and
// to which nodes pods have just been nominated.
package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// connectTimeout bounds the wait for the API server's first answer.
const connectTimeout = 10 * time.Second

// Catalog returns what a node class offers. A cloud.Provider implements it.
type Catalog interface {
	Catalog(ctx context.Context, class cloud.ClassRef) ([]model.InstanceType, error)
}

// Options configure Read, Open and Load. The zero value is the default.
type Options struct {
	// Catalog creates the source of offers once classes can be read; nil means the built-in catalogue. Prices names the
	// source of its prices.
	Catalog func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		kubernetesVersion string) (Catalog, error)
	Prices string
	// Region is the AWS region of the built-in catalogue, "" = that of the cluster's zones, or else DefaultRegion.
	Region, DefaultRegion string
	// Partial continues without the kinds that cannot be read or are not served; Gaps then names them. Pods and Nodes
	// are always required.
	Partial   bool
	Scheduler translate.SchedulerConfig // configuration of the cluster's kube-scheduler
	// Keep retains every object for Objects.
	Keep bool
	// MaxDump bounds the size of a dump's objects in bytes; 0 = 1 GiB.
	MaxDump int64
	Clock   clock.Clock // defaults to the real clock
}

// Cluster is a cluster that was read once or is being watched. Its methods are safe for concurrent use.
type Cluster struct {
	State *cluster.State // the objects behind the Snapshot

	o       Options
	rest    *rest.Config // nil for a dump
	server  string
	version string        // of the API server, major.minor
	client  client.Client // nil for a dump
	catalog Catalog       // nil for the built-in catalogue
	dumped  *dump         // nil for a live cluster
	synced  atomic.Bool
	offers  sync.Mutex       // held while offers are computed
	built   map[string]built // by class; guarded by offers

	mu       sync.Mutex
	classes  map[string]*ec2v1.EC2NodeClass
	deleting map[string]bool // classes being deleted in a forecast
	gaps     []error
	assumed  map[string]string // by class
	regions  map[string]bool   // regions whose built-in prices are used
	kept     []client.Object   // with Options.Keep
}

// REST returns the client configuration of the cluster, nil for a dump.
func (c *Cluster) REST() *rest.Config { return c.rest }

// Read reads the cluster once. Errors say what could not be read, why, and what to do.
func Read(ctx context.Context, cfg *rest.Config, o Options) (*Cluster, error) {
	c, err := connect(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	if err := c.readAll(ctx); err != nil {
		return nil, err
	}
	ignoreDevices(c)
	c.offerAll(ctx)
	return c, nil
}

// connect creates a Cluster and checks that its API server answers.
func connect(ctx context.Context, cfg *rest.Config, o Options) (*Cluster, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 50, 100
	}
	first := rest.CopyConfig(cfg)
	first.Timeout = connectTimeout
	d, err := discovery.NewDiscoveryClientForConfig(first)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w; correct the kubeconfig", cfg.Host, err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		return nil, ExplainUnreachable(cfg.Host, err)
	}
	c := newCluster(o)
	c.rest, c.server, c.version = cfg, cfg.Host, v.Major+"."+digits(v.Minor)
	if c.client, err = client.New(cfg, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, ExplainUnreachable(cfg.Host, err)
	}
	if o.Catalog != nil {
		if c.catalog, err = o.Catalog(ctx, c.Class, c.version); err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
	}
	return c, nil
}

func newCluster(o Options) *Cluster {
	return &Cluster{
		State: cluster.New(cluster.Options{
			Clock: o.Clock, Scheduler: o.Scheduler, ReadFailures: true, NoExpected: true,
		}), o: o,
		built: map[string]built{}, classes: map[string]*ec2v1.EC2NodeClass{}, assumed: map[string]string{},
		regions: map[string]bool{},
	}
}

// digits returns the leading digits of s: "36" of "36+".
func digits(s string) string {
	for i, r := range s {
		if r < '0' || r > '9' {
			return s[:i]
		}
	}
	return s
}

// Snapshot returns the cluster as currently known.
func (c *Cluster) Snapshot() *model.Snapshot { return c.State.Snapshot() }

// Changed receives a value after each change that matters to decisions. After Read it never does.
func (c *Cluster) Changed() <-chan struct{} { return c.State.Changed() }

// Scheduler returns the configuration of the cluster's kube-scheduler, from Options.
func (c *Cluster) Scheduler() translate.SchedulerConfig { return c.o.Scheduler }

// Server returns the address of the API server.
func (c *Cluster) Server() string { return c.server }

// Objects returns everything that was read, if Options.Keep is set. Pods lack the fields that no decision depends on.
// The caller must not modify the objects.
func (c *Cluster) Objects() []client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.kept)
}

// Get reads any object from the API server or from the dump.
func (c *Cluster) Get(ctx context.Context, key client.ObjectKey, into client.Object) error {
	if c.client != nil {
		return c.client.Get(ctx, key, into)
	}
	return c.dumped.get(key, into)
}

// Gaps returns the errors of the kinds that could not be read, in the order of kinds.
func (c *Cluster) Gaps() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.gaps)
	slices.SortStableFunc(out, func(a, b error) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// Events returns the events about objects with a name, of any kind, oldest first.
func (c *Cluster) Events(ctx context.Context, namespace, name string) ([]corev1.Event, error) {
	if c.client == nil {
		return nil, errors.New("a dump holds no events")
	}
	var list corev1.EventList
	of := client.MatchingFields{"involvedObject.name": name}
	if err := c.client.List(ctx, &list, client.InNamespace(namespace), of); err != nil {
		return nil, kind{resource: "events"}.explain(c.server, "list", err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return EventTime(&a).Compare(EventTime(&b)) })
	return list.Items, nil
}

// EventTime returns when an event last happened.
func EventTime(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if at.IsZero() {
		at = e.EventTime.Time
	}
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
