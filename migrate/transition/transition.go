// Package transition moves the pods of a cluster from its node groups to NodePools, in steps that can be taken back.
//
// The state is a ConfigMap of the cluster, written before each change that it describes: whoever comes after a process
// that was killed goes on where it was.
package transition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Step is how far a transition has come.
type Step int

// The steps of a transition, in their order.
const (
	NotBegun Step = iota
	Observed      // the groups are written down; nothing has changed
	Closed        // no pod comes to the groups any more, and they launch nothing
	Drained       // no pod is left on their nodes
	Emptied       // they have no instances
	Removed       // they are deleted
)

var stepNames = []string{"not begun", "observed", "closed", "drained", "emptied", "removed"}

// String returns the step's name.
func (s Step) String() string { return stepNames[min(max(int(s), 0), len(stepNames)-1)] }

// MarshalText writes the step's name.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the step's name.
func (s *Step) UnmarshalText(text []byte) error {
	i := slices.Index(stepNames, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no step of a migration", text)
	}
	*s = Step(i)
	return nil
}

// Explain says what a step does, for people.
func (s Step) Explain() string {
	return []string{
		"nothing has been done",
		"the groups are written down, and nothing has changed",
		"new pods go to NodePools: the groups' nodes are tainted, and nothing makes the groups grow",
		"the groups' nodes have no pods but those of DaemonSets",
		"the groups have a size of 0",
		"the groups are deleted",
	}[s]
}

// Config says what a transition works on.
type Config struct {
	REST    *rest.Config
	AWS     aws.Config
	Cluster string // as AWS calls it
	Clock   clock.Clock
	// Force lets pods go that nothing creates again, and those whose annotations say that they must not be evicted.
	Force bool
	Say   func(format string, args ...any) // progress; called by several goroutines at once
}

// Transition takes the steps. Its methods must not be called at the same time.
type Transition struct {
	Config
	kubernetes kubernetes.Interface
	client     client.Client
	groups     *groups
}

// New returns the transition of a cluster.
func New(c Config) (*Transition, error) {
	c.REST = rest.CopyConfig(c.REST)
	c.REST.QPS, c.REST.Burst = 100, 200 // the API server knows better than client-go's 5 what it can take
	clientset, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	typed, err := client.New(c.REST, client.Options{})
	if err != nil {
		return nil, err
	}
	return &Transition{Config: c, kubernetes: clientset, client: typed, groups: newGroups(c.AWS, c.Cluster)}, nil
}

// ErrRemove is the error of Next when only the deletion of the groups is left, which must be asked for.
var ErrRemove = errors.New("the node groups are empty; --remove deletes them")

// ErrDone is the error of Next when nothing is left to do.
var ErrDone = errors.New("the node groups are deleted; nothing is left to do")

// Next takes the next step, or goes on with one that was interrupted, and returns the state afterwards. It deletes
// groups only with remove.
func (t *Transition) Next(ctx context.Context, remove bool) (*State, error) {
	s, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	if s.Back { // whatever is undone of the later steps is done again
		s.Back, s.Step = false, min(s.Step, Observed)
	}
	step := s.Step + 1
	switch {
	case step > Removed:
		return s, ErrDone
	case step == Removed && !remove:
		return s, ErrRemove
	}
	if err := t.openPools(ctx, s); err != nil {
		return s, err
	}
	if err := t.discover(ctx, s); err != nil {
		return s, err
	}
	s.Closing = s.Closing || step == Closed
	if err := t.save(ctx, s); err != nil {
		return s, err
	}
	action := map[Step]func(context.Context, *State) error{
		Observed: t.observe, Closed: t.closeGroups, Drained: t.drainGroups, Emptied: t.emptyGroups, Removed: t.removeGroups,
	}[step]
	if err := action(ctx, s); err != nil {
		return s, fmt.Errorf("step %q: %w", step, err)
	}
	s.Step = step
	return s, t.save(ctx, s)
}

// observe checks that there is something to move, and somewhere to move it to.
func (t *Transition) observe(ctx context.Context, s *State) error {
	if len(s.Groups) == 0 {
		return fmt.Errorf("no Auto Scaling group has nodes of the cluster or a tag kubernetes.io/cluster/%s", t.Cluster)
	}
	var pools karpv1.NodePoolList
	if err := t.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	ready := 0
	for i := range pools.Items {
		if isReady(&pools.Items[i]) {
			ready++
		}
	}
	if ready == 0 {
		return fmt.Errorf("none of %d NodePools is Ready, so that pods would have nowhere to go; "+
			"make them with nodeless migrate --from-aws --apply", len(pools.Items))
	}
	for _, g := range s.Groups {
		t.Say("%s: %d nodes, %d to %d", g.Title(), g.Desired, g.Min, g.Max)
	}
	if a := s.Autoscaler; a != nil {
		t.Say("Cluster Autoscaler: Deployment %s/%s with %d replicas", a.Namespace, a.Name, a.Replicas)
	}
	return nil
}

// closeGroups keeps new pods off the groups' nodes, and the groups from growing.
func (t *Transition) closeGroups(ctx context.Context, s *State) error {
	if err := t.scaleAutoscaler(ctx, s, 0); err != nil {
		return err
	}
	for _, g := range s.Groups {
		if err := t.groups.suspend(ctx, &g); err != nil {
			return err
		}
	}
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	if err := t.taint(ctx, nodes, ""); err != nil {
		return err
	}
	t.Say("%d nodes of %d groups take no new pods", len(nodes), len(s.Groups))
	return nil
}

// drainsAtOnce is how many nodes are drained at the same time. Their pods' budgets hold all the same.
const drainsAtOnce = 5

// drainGroups evicts the pods of the groups' nodes, a few nodes at a time.
func (t *Transition) drainGroups(ctx context.Context, s *State) error {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	pods, err := t.checkPods(ctx, nodes)
	if err != nil {
		return err
	}
	if err := t.taint(ctx, nodes, v1alpha1.MigrationDrain); err != nil {
		return err
	}
	if err := t.awaitNodes(ctx, s, pods); err != nil {
		return err
	}
	var done atomic.Int32
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(drainsAtOnce)
	for i := range nodes {
		work.Go(func() error {
			n, err := t.drain(ctx, &nodes[i])
			if err == nil {
				t.Say("[%d/%d] %s: %d pods moved", done.Add(1), len(nodes), nodes[i].Name, n)
			}
			return err
		})
	}
	return work.Wait()
}

// emptyGroups sets the groups' sizes to 0 and waits until their instances are gone.
func (t *Transition) emptyGroups(ctx context.Context, s *State) error {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	for i := range nodes {
		pods, err := t.drainer().Pods(ctx, nodes[i].Name)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			s.Step = Closed
			return errors.Join(t.save(ctx, s), fmt.Errorf("node %s has %d pods again, such as %s/%s; next drains it first",
				nodes[i].Name, len(pods), pods[0].Namespace, pods[0].Name))
		}
	}
	for _, g := range s.Groups {
		if err := t.groups.resize(ctx, &g, 0, g.Max, 0); err != nil {
			return err
		}
		t.Say("%s: size 0", g.Title())
	}
	return t.poll(ctx, "instances of the groups", func() (string, error) {
		left, err := t.groups.members(ctx, s.Groups)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d are left", len(left)), nil
	})
}

// removeGroups deletes the groups.
func (t *Transition) removeGroups(ctx context.Context, s *State) error {
	for i := range s.Groups {
		if err := t.groups.remove(ctx, &s.Groups[i]); err != nil {
			return err
		}
		t.Say("%s: deleted", s.Groups[i].Title())
	}
	return t.poll(ctx, "deletion of the groups", func() (string, error) {
		left, err := t.groups.existing(ctx, s.Groups)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return strings.Join(left, ", ") + " still there", nil
	})
}

// Back restores the groups, moves the pods back to them, and forgets the migration but for what its pools had, which
// launch nothing any more. It goes on where an interrupted one was.
func (t *Transition) Back(ctx context.Context) (*State, error) {
	s, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	if s.Step == NotBegun && len(s.Groups) == 0 {
		return s, errors.New("there is nothing to take back: no migration has begun")
	}
	s.Back = true
	if err := t.save(ctx, s); err != nil {
		return s, err
	}
	for _, action := range []func(context.Context, *State) error{
		t.restoreGroups, t.openGroups, t.closePools, t.emptyPools,
		func(ctx context.Context, s *State) error {
			if s.Autoscaler == nil {
				return nil
			}
			return t.scaleAutoscaler(ctx, s, s.Autoscaler.Replicas)
		},
	} {
		if err := action(ctx, s); err != nil {
			return s, fmt.Errorf("back: %w", err)
		}
	}
	s = &State{Pools: s.Pools} // what the next migration gives its pools back
	return s, t.save(ctx, s)
}

// restoreGroups gives the groups their sizes and waits for their nodes.
func (t *Transition) restoreGroups(ctx context.Context, s *State) error {
	for i := range s.Groups {
		g := &s.Groups[i]
		if err := errors.Join(t.groups.restore(ctx, g), t.save(ctx, s)); err != nil {
			return err
		}
		t.Say("%s: %d nodes, %d to %d", g.Title(), g.Desired, g.Min, g.Max)
	}
	return t.poll(ctx, "nodes of the groups", func() (string, error) { return t.nodesMissing(ctx, s) })
}

// openGroups lets pods onto the groups' nodes again.
func (t *Transition) openGroups(ctx context.Context, s *State) error {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	for i := range nodes {
		if err := t.untaint(ctx, &nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// pollEvery is how often the transition looks at what it waits for.
const pollEvery = time.Second

// poll waits until left returns nothing, and says what is left when that changes.
func (t *Transition) poll(ctx context.Context, what string, left func() (string, error)) error {
	said := ""
	for {
		now, err := left()
		if err != nil || now == "" {
			return err
		}
		if now != said {
			t.Say("waiting for the %s: %s", what, now)
			said = now
		}
		if err := clock.Sleep(ctx, t.Clock, pollEvery); err != nil {
			return fmt.Errorf("waiting for the %s: %s: %w", what, now, err)
		}
	}
}
