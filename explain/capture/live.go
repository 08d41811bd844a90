// Package capture makes the engine's Snapshot of any cluster, given a kubeconfig and the right to read. It writes
// nothing, takes no lease, and calls no cloud unless asked to: instance types and prices come from the built-in
// catalogue.
//
// Such a Snapshot lacks what only the controller's process knows: which offerings were recently out of capacity, and
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

// connectTimeout bounds the wait for the cluster's first answer.
const connectTimeout = 10 * time.Second

// Catalog says what a node class offers; a cloud.Provider is one.
type Catalog interface {
	Catalog(ctx context.Context, class cloud.ClassRef) ([]model.InstanceType, error)
}

// Options configure Read, Open and Load. The zero value is the default.
type Options struct {
	// Catalog creates the source of offers once classes can be read; nil = the built-in catalogue. Prices names the
	// source of its prices.
	Catalog func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
		kubernetesVersion string) (Catalog, error)
	Prices string
	// Region is the AWS region of the built-in catalogue, "" = that of the cluster's zones, or else DefaultRegion.
	Region, DefaultRegion string
	// Partial continues without kinds that may not be read or are not served, which Gaps then names. Pods and Nodes are
	// always needed.
	Partial   bool
	Scheduler translate.SchedulerConfig // of the cluster's kube-scheduler
	// Keep retains every object for Objects.
	Keep bool
	// MaxDump bounds the size of a dump's objects in bytes; 0 = 1 GiB.
	MaxDump int64
	Clock   clock.Clock // default the real one
}

// Cluster is a cluster as it was read, or as it is being watched. Its methods are safe for concurrent use.
type Cluster struct {
	State *cluster.State // the objects behind the Snapshot

	o       Options
	rest    *rest.Config // nil = it is a dump
	server  string
	version string        // of the API server, major.minor
	client  client.Client // nil = it is a dump
	catalog Catalog       // nil = the built-in one
	dumped  *dump         // nil = it is a live cluster
	synced  atomic.Bool
	offers  sync.Mutex       // held while offers are computed
	built   map[string]built // by class; guarded by offers

	mu       sync.Mutex
	classes  map[string]*ec2v1.EC2NodeClass
	deleting map[string]bool // classes being deleted in a forecast
	gaps     []error
	assumed  map[string]string // by class
	regions  map[string]bool   // whose built-in prices are used
	kept     []client.Object   // with Options.Keep
}

// REST returns how the cluster is reached; nil for a dump.
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
	c.offerAll(ctx)
	return c, nil
}

// connect checks whether the cluster answers at all.
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

// digits are the leading digits of a text: "36" of "36+".
func digits(s string) string {
	for i, r := range s {
		if r < '0' || r > '9' {
			return s[:i]
		}
	}
	return s
}

// Snapshot is the cluster as it is known now.
func (c *Cluster) Snapshot() *model.Snapshot { return c.State.Snapshot() }

// Changed receives a value after changes that matter to decisions; never after Read.
func (c *Cluster) Changed() <-chan struct{} { return c.State.Changed() }

// Scheduler is the configuration of the cluster's kube-scheduler, as Options say.
func (c *Cluster) Scheduler() translate.SchedulerConfig { return c.o.Scheduler }

// Server is the address of the API server.
func (c *Cluster) Server() string { return c.server }

// Objects returns everything that was read, with Options.Keep; pods are stripped of what decides nothing. The
// objects must not be modified.
func (c *Cluster) Objects() []client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.kept)
}

// Get reads another object: from the API server, or from the dump.
func (c *Cluster) Get(ctx context.Context, key client.ObjectKey, into client.Object) error {
	if c.client != nil {
		return c.client.Get(ctx, key, into)
	}
	return c.dumped.get(key, into)
}

// Gaps says what could not be read, with Options.Partial, in the order of kinds.
func (c *Cluster) Gaps() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.gaps)
	slices.SortStableFunc(out, func(a, b error) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// Events returns the events about objects of a name, of any kind, oldest first.
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

// EventTime is when an event last happened.
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
