// Package loadbalancer gives Ingresses of the class alb and Services of the type LoadBalancer load balancers of Elastic
// Load Balancing v2, as the AWS Load Balancer Controller and EKS Auto Mode do, by their documented annotations. An
// annotation that has no effect is told in an event.
//
// It talks to AWS through the SDK alone. One goroutine builds a stack for each load balancer from the cached objects
// (ingress.go, service.go: pure), makes AWS agree (sync.go) and writes the addresses into the objects' status
// (status.go). What AWS has is found by its tags, and everything is compared each time. So nothing is remembered, and
// any crash is survived: what no stack wants is deleted.
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
	// Locate returns where a load balancer is reached; nil means at its DNS name and the ports of its listeners.
	Locate func(dnsName string) (Location, bool)
	Log    *slog.Logger
}

// Location is where a load balancer is reached.
type Location struct {
	IP       netip.Addr
	Hostname string          // "" if no name leads there
	Ports    map[int32]int32 // of its listeners, to those to connect to
}

// Times of the controller.
const (
	gather   = 100 * time.Millisecond // after a change, for those that come with it
	soon     = time.Second            // until something that AWS does is looked at again
	regular  = 30 * time.Second       // between looks although nothing has changed
	callTime = 20 * time.Second       // for all calls of one look
)

// controller is one running controller. One goroutine owns it.
type controller struct {
	Options
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	watched  *watched
	aws      *syncer
	recorder events.Recorder
	told     map[string]bool // events that were recorded and still hold
	owns     bool            // something at AWS, perhaps
}

// Run serves the cluster, which has the definitions of CRDs, until ctx is done.
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

// reconcile makes AWS and the status of the objects as they should be. pending says that AWS is still at work.
func (c *controller) reconcile(ctx context.Context) (pending bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o := c.watched.objects(c.Cluster)
	pods := podReader{ctx: ctx, kube: c.kube, found: map[string]*corev1.Pod{}}
	o.pod = pods.get
	stacks := append(o.ingressStacks(), o.serviceStacks()...)
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
		if made, ok := have.groups[name]; ok { // else it was made in this very look
			failed = append(failed, c.openGates(ctx, *made.TargetGroupArn, g))
		}
	}
	return !ok && len(s.listeners) > 0, errors.Join(failed...)
}

// tell records the problems of the stacks, each once as long as it holds.
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
