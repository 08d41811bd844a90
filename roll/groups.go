package roll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/migrate/drain"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// Config configures a roll of groups.
type Config struct {
	REST    *rest.Config
	AWS     aws.Config
	Cluster string // its name in AWS
	Clock   clock.Clock
	Say     func(format string, args ...any) // reports progress; called concurrently

	MaxSurge                        int // instances that a group may have above its target
	DrainTimeout, ValidationTimeout time.Duration
	FailOnDrainError                bool // if false, a node whose drain fails is terminated anyway
	Force                           bool // replace nodes that need no update, too
}

// Roller rolls the groups of a cluster.
type Roller struct {
	Config
	kubernetes kubernetes.Interface
	account    *account
	drainer    drain.Drainer
}

// NewRoller returns the roller of a cluster's groups.
func NewRoller(c Config) (*Roller, error) {
	c.REST = rest.CopyConfig(c.REST)
	c.REST.QPS, c.REST.Burst = 100, 200 // client-go's default of 5 is too low: the API server limits requests itself
	clientset, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	return &Roller{c, clientset, newAccount(c.AWS), drain.Drainer{Client: clientset, Say: c.Say}}, nil
}

// Groups returns the named groups, or all of the cluster, in the order in which they are rolled. The error is an
// *UnknownError if a named group does not exist.
func (r *Roller) Groups(ctx context.Context, names []string) ([]Group, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.account.groups(ctx)
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(all, func(a scalingtypes.AutoScalingGroup) bool {
		return !fromaws.OfCluster(a.Tags, r.Cluster) && !slices.ContainsFunc(a.Instances,
			func(i scalingtypes.Instance) bool { return nodes[aws.ToString(i.InstanceId)] != nil })
	})
	out, err := r.read(ctx, ours, nodes)
	if err != nil {
		return nil, err
	}
	return chosen("group", out, func(g *Group) []string { return []string{g.Title(), g.Name} }, names)
}

// group reads a single group again.
func (r *Roller) group(ctx context.Context, name string) (*Group, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	found, err := r.account.groups(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("it was deleted meanwhile")
	}
	out, err := r.read(ctx, found, nodes)
	if err != nil {
		return nil, err
	}
	return &out[0], nil
}

// read combines what AWS and the cluster report about groups.
func (r *Roller) read(
	ctx context.Context, described []scalingtypes.AutoScalingGroup, nodes map[string]*corev1.Node,
) ([]Group, error) {
	known, err := r.account.versionsOf(ctx, described)
	if err != nil {
		return nil, err
	}
	detached, err := r.account.detached(ctx)
	if err != nil {
		return nil, err
	}
	launched, err := r.account.launchTimes(ctx, withoutNode(described, nodes))
	if err != nil {
		return nil, err
	}
	var out []Group
	for i := range described {
		g := newGroup(&described[i], nodes, launched, launchOf(&described[i], known))
		g.adopt(detached, nodes)
		out = append(out, g)
	}
	sortGroups(out)
	return out, nil
}

// withoutNode returns the instances of groups that have been rolled by force whose age no node tells, as with bastions.
func withoutNode(described []scalingtypes.AutoScalingGroup, nodes map[string]*corev1.Node) (out []string) {
	for i := range described {
		if !slices.ContainsFunc(described[i].Tags, func(t scalingtypes.TagDescription) bool {
			return aws.ToString(t.Key) == v1alpha1.RolledAt
		}) {
			continue
		}
		for _, in := range described[i].Instances {
			if id := aws.ToString(in.InstanceId); nodes[id] == nil {
				out = append(out, id)
			}
		}
	}
	return out
}

// adopt adds to the group the instances that a roll has detached from it.
func (g *Group) adopt(instances map[string]detached, nodes map[string]*corev1.Node) {
	for i := range g.Members {
		delete(instances, g.Members[i].Instance) // tagged, but still a member
	}
	for id, was := range instances {
		if was.group == g.Name {
			g.Members = append(g.Members, Member{
				Instance: id, Detached: true, Node: nodes[id], Since: since(nodes[id], was.launched),
				Outdated: "detached by a roll",
			})
		}
	}
}

// nodes returns the nodes by the IDs of their instances.
func (r *Roller) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	out := map[string]*corev1.Node{}
	list, err := r.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range list.Items {
		if id := fromaws.InstanceID(&list.Items[i]); id != "" {
			out[id] = &list.Items[i]
		}
	}
	return out, nil
}

// Roll replaces the nodes that need an update, group by group.
func (r *Roller) Roll(ctx context.Context, names []string) error {
	groups, err := r.Groups(ctx, names)
	if err != nil {
		return err
	}
	for i := range groups {
		if p := groups[i].Problem; p != "" && (r.Force || groups[i].outdated() != nil || len(names) > 0) {
			return fmt.Errorf("group %s cannot launch instances: %s", groups[i].Title(), p)
		}
	}
	for i := range groups {
		if err := r.rollGroup(ctx, &groups[i]); err != nil {
			return fmt.Errorf("group %s: %w", groups[i].Title(), err)
		}
	}
	return nil
}

// rollGroup replaces the nodes of a group that need an update:
//
//  1. Anything that would stop the roll stops it before it changes anything.
//  2. Nodes that need an update are tainted, so that evicted pods prefer other nodes.
//  3. A few instances are detached, and the group launches replacements. With a surge of 0, none is detached.
//  4. When the replacements have joined and the cluster is valid, the detached instances are drained and terminated.
//     Then 3 repeats.
//
// It may be killed at any point: 1 and 2 are idempotent, and 3 takes instances that are already detached first.
func (r *Roller) rollGroup(ctx context.Context, g *Group) error {
	all := r.Force && !g.rolling()
	if !all && len(g.outdated()) == 0 {
		r.Say("%s: no node needs an update", g.Title())
		return nil
	}
	if err := r.check(ctx, g); err != nil {
		return err
	}
	if all {
		if err := r.account.markRolled(ctx, g.Name, r.Clock.Now()); err != nil {
			return err
		}
		var err error
		if g, err = r.group(ctx, g.Name); err != nil {
			return err
		}
	}
	r.Say("%s: %d of %d nodes need an update", g.Title(), len(g.outdated()), len(g.Members))
	if err := r.mark(ctx, g); err != nil {
		return err
	}
	surge := r.MaxSurge
	if g.Role == fromaws.ControlPlane {
		surge = 0 // an etcd volume can be attached to only one instance at a time
	}
	for {
		g, err := r.group(ctx, g.Name)
		if err != nil {
			return err
		}
		if len(g.outdated()) == 0 {
			break
		}
		batch := g.next(surge)
		if surge > 0 {
			if err := r.detach(ctx, g, batch); err != nil {
				return err
			}
		}
		if err := r.validate(ctx, g); err != nil {
			return err
		}
		work, ctx := errgroup.WithContext(ctx)
		for _, m := range batch {
			work.Go(func() error { return r.remove(ctx, g, m) })
		}
		if err := work.Wait(); err != nil {
			return err
		}
	}
	if err := r.validate(ctx, g); err != nil {
		return err
	}
	r.Say("%s: all nodes are up to date", g.Title())
	return nil
}

// check returns an error if the roll cannot begin.
func (r *Roller) check(ctx context.Context, g *Group) error {
	if r.FailOnDrainError {
		bad, err := r.Objections(ctx, g)
		if err != nil {
			return err
		}
		if n := len(bad); n > 0 {
			return fmt.Errorf("%d pods are in the way: %s; wait until they end, change their budgets or delete them, or "+
				"terminate their nodes anyway with --fail-on-drain-error=false", n, strings.Join(bad[:min(n, 10)], "; "))
		}
	}
	return r.validate(ctx, g)
}

// detach detaches the instances of a batch from their group, except those already detached.
func (r *Roller) detach(ctx context.Context, g *Group, batch []*Member) error {
	for _, m := range batch {
		if m.Detached {
			continue
		}
		if err := r.account.detach(ctx, g.Name, m.Instance); err != nil {
			return err
		}
		m.Detached = true
		r.Say("%s: detached %s, the group launches another", g.Title(), m)
	}
	return nil
}

// remove drains a member's node and terminates its instance.
func (r *Roller) remove(ctx context.Context, g *Group, m *Member) error {
	pods := 0
	if m.Node != nil {
		r.Say("%s: draining %s", g.Title(), m)
		var err error
		if pods, err = r.drain(ctx, m.Node.Name); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r.FailOnDrainError {
				return fmt.Errorf("%w; remove the cause and roll again, which continues here, or terminate the node anyway with "+
					"--fail-on-drain-error=false", err)
			}
			r.Say("%s: terminating the node anyway: %v", g.Title(), err)
		}
	}
	if err := r.account.terminate(ctx, m); err != nil {
		return err
	}
	r.Say("%s: %s is terminated, %d pods moved", g.Title(), m, pods)
	return r.await(ctx, g.Title(), func() (string, error) {
		now, err := r.group(ctx, g.Name)
		if err != nil {
			return "", err
		}
		for i := range now.Members {
			if now.Members[i].Instance == m.Instance {
				return fmt.Sprintf("%s still runs", m), nil
			}
		}
		return "", nil
	})
}

// validations is how many times in a row the cluster must be valid, as in kops: a node may be Ready only briefly.
const validations = 2

// validate waits until a group is ready and the cluster's critical pods are ready.
func (r *Roller) validate(ctx context.Context, g *Group) error {
	valid := 0
	return r.await(ctx, g.Title(), func() (string, error) {
		why, err := r.invalid(ctx, g.Name)
		if err != nil || why != "" {
			valid = 0
			return why, err
		}
		if valid++; valid < validations {
			return settling, nil
		}
		return "", nil
	})
}

// settling is the reason for waiting that await does not report.
const settling = "the cluster has to stay valid"

// invalid returns why a group or the cluster is not valid, or "" if both are.
func (r *Roller) invalid(ctx context.Context, name string) (string, error) {
	g, err := r.group(ctx, name)
	if err != nil {
		return "", err
	}
	why := g.notReady()
	if why != "" {
		failure, err := r.account.launchFailure(ctx, g.Name)
		if failure != "" {
			why += "; its last launch failed: " + failure
		}
		return why, err
	}
	current := map[string]bool{}
	for i := range g.Members {
		if m := &g.Members[i]; m.Node != nil && m.Outdated == "" {
			current[m.Node.Name] = true
		}
	}
	pods, err := r.kubernetes.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	return critical(pods.Items, current), nil
}

// lookEvery is how often a roll checks the condition it waits for.
const lookEvery = 2 * time.Second

// await calls left until it returns "". It reports what is left whenever that changes, and fails after the validation
// timeout.
func (r *Roller) await(ctx context.Context, group string, left func() (string, error)) error {
	said, deadline := settling, r.Clock.Now().Add(r.ValidationTimeout)
	for {
		now, err := left()
		if away(err) { // such as while the only control-plane node is being replaced
			now, err = err.Error(), nil
		}
		if err != nil || now == "" {
			return err
		}
		if now != said && now != settling {
			r.Say("%s: waiting: %s", group, now)
			said = now
		}
		if r.Clock.Now().After(deadline) {
			return fmt.Errorf("still waiting after %s: %s; help it and roll again, which goes on here, or wait longer with "+
				"--validation-timeout", r.ValidationTimeout, now)
		}
		if err := clock.Sleep(ctx, r.Clock, lookEvery); err != nil {
			return err
		}
	}
}

// away reports whether err means that the API server is unreachable, which may be temporary.
func away(err error) bool {
	return err != nil && (net.IsConnectionRefused(err) || net.IsConnectionReset(err) || net.IsProbableEOF(err))
}
