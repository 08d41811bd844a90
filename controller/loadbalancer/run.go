// Package loadbalancer creates load balancers of Elastic Load Balancing v2 for Ingresses of the class alb and
// Services of the type LoadBalancer, as the AWS Load Balancer Controller and EKS Auto Mode do, according to their
// documented annotations. An event reports annotations that have no effect.
//
// It talks to AWS only through the SDK. One goroutine builds a stack for each load balancer from the cached objects
// (ingress.go, service.go: pure), makes AWS match it (sync.go) and writes the addresses into the objects' status
// (status.go). It finds its resources at AWS by their tags and compares everything each time. So it keeps no state
// and survives any crash: resources that no stack wants are deleted.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
)

// Options configures the controller.
type Options struct {
	REST    *rest.Config
	AWS     aws.Config
	Cluster string // its name, in the tags of what it owns
	// Locate returns where a load balancer is reached; nil = at its DNS name and the ports of its listeners.
	Locate func(dnsName string) (Location, bool)
	Log    *slog.Logger
}

// Location is where a load balancer is reached.
type Location struct {
	IP       netip.Addr
	Hostname string          // "" if no name resolves to it
	Ports    map[int32]int32 // listener ports to the ports to connect to
}

// Intervals of the controller.
const (
	gather   = 100 * time.Millisecond // after a change, to batch changes
	soon     = time.Second            // until the next reconciliation while AWS is at work
	regular  = 30 * time.Second       // between reconciliations without a change
	callTime = 20 * time.Second       // for all calls of one reconciliation
)

// controller is one running controller. One goroutine owns it.
type controller struct {
	Options
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	watched  *watched
	aws      *syncer
	recorder events.Recorder
	told     map[string]bool // recorded events that still hold
	owns     bool            // may own something at AWS
}

// Run serves a cluster in which CRDs are installed until ctx is done.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	kube, err := kubernetes.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("load balancer controller: %w", err)
	}
	others, err := dynamic.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("load balancer controller: %w", err)
	}
	broadcaster := events.Broadcast(ctx, kube)
	defer broadcaster.Shutdown()
	c := &controller{
		Options: o, kube: kube, dynamic: others, watched: watch(kube, others), told: map[string]bool{}, owns: true,
		aws:      &syncer{elb: elb.NewFromConfig(o.AWS), ec2: ec2.NewFromConfig(o.AWS), cluster: o.Cluster},
		recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "load-balancer-controller"}),
	}
	if !c.watched.start(ctx) {
		return ctx.Err()
	}
	defer c.watched.stop()
	gates, err := c.injector()
	if err != nil {
		return fmt.Errorf("load balancer controller: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var injecting sync.WaitGroup
	injecting.Go(func() { cancel(gates.Run(ctx)) })
	defer injecting.Wait()
	defer cancel(nil)
	return c.follow(ctx)
}

// follow reconciles whenever something changes, until ctx is done.
func (c *controller) follow(ctx context.Context) error {
	for {
		again := regular
		pending, err := c.reconcile(ctx)
		select {
		case <-c.watched.unbound:
			if failed := c.openOrphans(ctx); failed != nil {
				c.watched.unbound.Set()
				err = errors.Join(err, fmt.Errorf("readiness gates of deleted TargetGroupBindings: %w", failed))
			}
		default:
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			c.Log.Warn("load balancers are not as they should be; retrying", "error", err)
			again = 5 * soon
		case pending:
			again = soon
		}
		_ = clock.SleepOr(ctx, clock.Real{}, again, c.watched.changed)
		if clock.Sleep(ctx, clock.Real{}, gather) != nil {
			return context.Cause(ctx)
		}
	}
}

// reconcile makes AWS and the status of the objects match the stacks. pending says that AWS is still at work.
func (c *controller) reconcile(ctx context.Context) (pending bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o := c.watched.objects(c.Cluster)
	pods := podReader{ctx: ctx, kube: c.kube, found: map[string]*corev1.Pod{}}
	o.pod = pods.get
	stacks := append(o.ingressStacks(), o.serviceStacks()...)
	if pods.failed != nil { // the pod's target must not be taken for one that is gone
		return false, pods.failed
	}
	c.tell(stacks)
	existing := c.watched.list(bindings)
	if len(stacks) == 0 && !c.owns && len(existing) == 0 {
		return false, nil
	}
	have, err := c.aws.list(ctx)
	if err != nil {
		return false, err
	}
	var failed []error
	for _, s := range stacks {
		wait, err := c.reconcileStack(ctx, have, s)
		pending = pending || wait
		if err != nil {
			failed = append(failed, err)
			c.event(s, corev1.EventTypeWarning, "FailedDeployModel", err.Error())
		}
	}
	err = errors.Join(append(failed, c.aws.prune(ctx, have, stacks), c.bind(ctx, have, stacks, existing),
		c.bound(ctx, o, existing))...)
	c.owns = err != nil || len(stacks) > 0 || len(have.balancers)+len(have.groups)+len(have.securityGroups) > 0
	return pending || pods.waiting, err
}

func (c *controller) reconcileStack(ctx context.Context, have *made, s *stack) (pending bool, err error) {
	b, err := c.aws.sync(ctx, have, s)
	if err != nil {
		return false, err
	}
	at, ok := c.locate(b, s)
	if ok {
		if err := c.publish(ctx, s, at); err != nil {
			return true, err
		}
	}
	var failed []error
	for name, g := range s.targetGroups {
		if made, ok := have.groups[name]; ok { // otherwise it was just created
			failed = append(failed, c.openGates(ctx, *made.TargetGroupArn, g))
		}
	}
	return !ok && len(s.listeners) > 0, errors.Join(failed...)
}

// tell records the problems of the stacks, each once for as long as it holds.
func (c *controller) tell(stacks []*stack) {
	holds := map[string]bool{}
	for _, s := range stacks {
		for _, p := range s.problems {
			key := string(p.object.GetUID()) + p.reason + p.message
			holds[key] = true
			if !c.told[key] {
				c.recorder.Event(p.object, corev1.EventTypeWarning, p.reason, events.Message(p.message))
			}
		}
	}
	c.told = holds
}

// event records an event on every object of a stack.
func (c *controller) event(s *stack, kind, reason, message string) {
	for _, o := range s.owners {
		c.recorder.Event(o, kind, reason, events.Message(message))
	}
}
