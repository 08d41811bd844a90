// Package transition moves the pods of a cluster from its node groups to NodePools, in steps that can be undone.
//
// The state is a ConfigMap of the cluster, written before each change that it describes: if a process is killed, the
// next one continues where it was.
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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Step is how far a transition has come.
type Step int

// The steps of a transition, in order.
const (
	NotBegun Step = iota
	Observed      // the groups are recorded; nothing has changed
	Closed        // the groups get no new pods and launch nothing
	Drained       // their nodes have no pods left
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

// Explain describes the state after a step, for people.
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

// Config configures a transition.
type Config struct {
	REST    *rest.Config
	AWS     aws.Config
	Cluster string // its name in AWS
	Clock   clock.Clock
	// Forecast forecasts the cluster without the nodes of the given names.
	Forecast func(ctx context.Context, nodes []string) (*Forecast, error)
	// Lease is the name of the controller's Lease, in whichever namespace.
	Lease string
	// Keep names groups that stay, by the names of Auto Scaling groups or of node groups of EKS.
	Keep []string
	// Force also evicts pods that nothing creates again, pods whose annotations forbid eviction, and pods that would get
	// no node.
	Force bool
	Say   func(format string, args ...any) // reports progress; called by several goroutines at once
}

// Transition carries out the steps. Its methods must not be called concurrently.
type Transition struct {
	Config
	kubernetes kubernetes.Interface
	client     client.Client
	groups     *groups
}

// Those of Karpenter register themselves.
func init() { utilruntime.Must(v1alpha1.AddToScheme(scheme.Scheme)) }

// New returns the transition of a cluster.
func New(c Config) (*Transition, error) {
	c.REST = rest.CopyConfig(c.REST)
	c.REST.QPS, c.REST.Burst = 100, 200 // the API server limits itself; client-go's default of 5 is too low
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

// ErrRemove is the error of Next when only the deletion of the groups is left, which must be requested.
var ErrRemove = errors.New("the node groups are empty; --remove deletes them")

// ErrDone is the error of Next when nothing is left to do.
var ErrDone = errors.New("the node groups are deleted; nothing is left to do")

// Next carries out the next step, or continues an interrupted one, and returns the state afterwards. It deletes
// groups only if remove is set.
func (t *Transition) Next(ctx context.Context, remove bool) (*State, error) {
	s, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	if s.Back { // later steps that Back undid are done again
		s.Back, s.Step, s.DrainingSince = false, min(s.Step, Observed), nil
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
	if err := s.keep(t.Keep, t.Say); err != nil {
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
	s.Step, s.DrainingSince = step, nil
	return s, t.save(ctx, s)
}

// observe checks that there is something to move, and somewhere to move it to.
func (t *Transition) observe(ctx context.Context, s *State) error {
	if len(s.Groups) == 0 {
		return fmt.Errorf("no Auto Scaling group, other than those of NodeGroups and the control plane, has nodes of "+
			"the cluster or a tag kubernetes.io/cluster/%s", t.Cluster)
	}
	until := t.Clock.Now().Add(readyTime)
	if err := t.poll(ctx, "NodePools", func() (string, error) {
		var pools karpv1.NodePoolList
		if err := t.client.List(ctx, &pools); err != nil {
			return "", fmt.Errorf("list NodePools: %w", err)
		}
		err := poolsReady(pools.Items, s.Pools)
		if err != nil && t.Clock.Now().Before(until) {
			return err.Error(), nil
		}
		return "", err
	}); err != nil {
		return err
	}
	for _, g := range s.Groups {
		t.Say("%s: %d nodes, %d to %d", g.Title(), g.Desired, g.Min, g.Max)
	}
	if a := s.Autoscaler; a != nil {
		t.Say("Cluster Autoscaler: Deployment %s/%s with %d replicas", a.Namespace, a.Name, a.Replicas)
	}
	return t.previewRoom(ctx, s)
}

// readyTime is how long NodePools that were just made may take to become Ready.
const readyTime = 15 * time.Second

// poolsReady returns what is missing for pods to move to the NodePools; own are those of the migration.
func poolsReady(pools []karpv1.NodePool, own []Pool) error {
	ready := 0
	for i := range pools {
		p := &pools[i]
		if isOfOthers(p.Spec.Template.Spec.NodeClassRef) {
			continue
		}
		if isReady(p) {
			ready++
		} else if why := staticProblem(p); why != "" &&
			slices.ContainsFunc(own, func(x Pool) bool { return x.Name == p.Name }) {
			return fmt.Errorf("NodePool %s, which is to have %d nodes, is not Ready: %s", p.Name, *p.Spec.Replicas, why)
		}
	}
	if ready == 0 {
		return fmt.Errorf("none of %d NodePools is Ready, so that pods would have nowhere to go; "+
			"make them with nodeless migrate --from-aws --apply", len(pools))
	}
	return nil
}

// closeGroups keeps new pods off the groups' nodes, and the groups from growing.
func (t *Transition) closeGroups(ctx context.Context, s *State) error {
	if err := t.scaleAutoscaler(ctx, s, 0); err != nil {
		return err
	}
	for i := range s.Groups {
		there, err := t.groups.existing(ctx, s.Groups[i:i+1])
		if err != nil {
			return err
		}
		if len(there) == 0 { // an interrupted Back has not created it again
			continue
		}
		// Also what was suspended before: an interrupted Back may have resumed it.
		if err := t.groups.suspend(ctx, &s.Groups[i], stopped); err != nil {
			return err
		}
	}
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	if _, err := t.taint(ctx, nodes, ""); err != nil {
		return err
	}
	t.Say("%d nodes of %d groups take no new pods", len(nodes), len(s.Groups))
	return nil
}

// drainsAtOnce is how many nodes are drained concurrently. PodDisruptionBudgets hold nevertheless.
const drainsAtOnce = 5

// drainGroups makes the pools launch nodes for the pods of the groups' nodes, and evicts the pods, several nodes at a
// time.
func (t *Transition) drainGroups(ctx context.Context, s *State) error {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	pods, err := t.checkPods(ctx, nodes)
	if err == nil && pods == 0 {
		return nil
	}
	begun := t.now()
	room, noRoom := t.checkRoom(ctx, nodes)
	if err := errors.Join(err, noRoom); err != nil { // both, so that whoever decides on --force knows all of it
		return err
	}
	if err := t.unlessForced(leaderOf(t).check(ctx)); err != nil {
		return err
	}
	t.Say("%d pods are to move", pods)
	changed, err := t.taint(ctx, nodes, v1alpha1.MigrationDrain)
	if err != nil {
		return err
	}
	if changed || s.DrainingSince == nil || room.Launches != 0 {
		s.DrainingSince = &begun
		if err := t.save(ctx, s); err != nil {
			return err
		}
	}
	if err := t.awaitNodes(ctx, s, room.Launches); err != nil {
		return err
	}
	if room.Launches != 0 { // some launches may have failed
		if _, err := t.checkRoom(ctx, nodes); err != nil {
			return err
		}
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

// emptyGroups sets the groups' sizes to 0 and waits until they have no instances.
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
	for i := range s.Groups {
		if err := t.emptyGroup(ctx, &s.Groups[i]); err != nil {
			return err
		}
	}
	return t.poll(ctx, "instances of the groups", func() (string, error) {
		left, err := t.groups.members(ctx, s.Groups)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d are left", len(left)), nil
	})
}

// emptyGroup sets the size of a group to 0, if it exists: an interrupted Back may not have created it again.
func (t *Transition) emptyGroup(ctx context.Context, g *Group) error {
	there, err := t.groups.existing(ctx, []Group{*g})
	if err != nil || len(there) == 0 {
		return err
	}
	if err := t.groups.unprotect(ctx, g); err != nil {
		return err
	}
	if err := t.groups.resize(ctx, g, 0, g.Max, 0); err != nil {
		return err
	}
	t.Say("%s: size 0", g.Title())
	return nil
}

// removeGroups deletes the groups. Other nodes with their roles keep their access to the cluster.
func (t *Transition) removeGroups(ctx context.Context, s *State) error {
	lost, err := t.groups.allExtras(ctx, s.Groups)
	if err == nil && len(lost) > 0 {
		err = t.unlessForced(fmt.Errorf("nodeless migrate back could not create these again: %s; note them down and remove "+
			"them, or delete the groups nevertheless with --force", few(lost)))
	}
	if err != nil {
		return err
	}
	access := accessOf(t)
	if err := errors.Join(access.record(ctx, s), t.save(ctx, s)); err != nil {
		return err
	}
	for i := range s.Groups {
		if err := t.groups.remove(ctx, &s.Groups[i]); err != nil {
			return err
		}
		t.Say("%s: deleted", s.Groups[i].Title())
	}
	return t.poll(ctx, "deletion of the groups", func() (string, error) {
		left, err := t.groups.existing(ctx, s.Groups)
		if err != nil {
			return "", err
		}
		if err := access.restore(ctx, s); err != nil || len(left) == 0 {
			return "", err
		}
		return strings.Join(left, ", ") + " still there", nil
	})
}

// Back restores the groups, moves the pods back to them, and forgets the migration, except what its pools had: they
// no longer launch anything. Before the groups were closed, it leaves them and the nodes of the pools alone. It
// continues an interrupted Back.
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
	actions := []func(context.Context, *State) error{t.closePools}
	if s.Closing {
		// Cluster Autoscaler comes before emptyPools: the pods may have no room before it adds nodes to the groups.
		actions = []func(context.Context, *State) error{
			t.restoreGroups, t.openGroups, t.closePools, t.restoreAutoscaler, t.emptyPools,
		}
	}
	for _, action := range actions {
		if err := action(ctx, s); err != nil {
			return s, fmt.Errorf("back: %w", err)
		}
	}
	s = &State{Pools: s.Pools} // so that the next migration can restore its pools
	return s, t.save(ctx, s)
}

// restoreGroups restores the groups' sizes, waits for their nodes, and suspends again what was suspended before the
// migration, which runs in a group that was created again.
func (t *Transition) restoreGroups(ctx context.Context, s *State) error {
	for i := range s.Groups {
		g := &s.Groups[i]
		if err := errors.Join(t.groups.restore(ctx, g), t.save(ctx, s)); err != nil {
			return err
		}
		t.Say("%s: %d nodes, %d to %d", g.Title(), g.Desired, g.Min, g.Max)
	}
	if err := t.poll(ctx, "nodes of the groups", func() (string, error) { return t.nodesMissing(ctx, s) }); err != nil {
		return err
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		before := slices.DeleteFunc(slices.Clone(stopped), func(p string) bool { return slices.Contains(g.Suspend, p) })
		if err := t.groups.suspend(ctx, g, before); err != nil {
			return err
		}
	}
	return nil
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

// pollEvery is the interval at which poll checks what it waits for.
const pollEvery = time.Second

// poll waits until left returns "", and reports what is left when that changes.
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
