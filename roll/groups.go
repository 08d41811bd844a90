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

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/migrate/drain"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// Config says what a roll of groups works on, and how.
type Config struct {
	REST    *rest.Config
	AWS     aws.Config
	Cluster string // as AWS calls it
	Clock   clock.Clock
	Say     func(format string, args ...any) // progress; called by several goroutines at once

	MaxSurge                        int // instances that a group may have beside its target
	DrainTimeout, ValidationTimeout time.Duration
	FailOnDrainError                bool // else a node whose drain fails is terminated all the same
	Force                           bool // nodes that need no update are replaced, too
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
	c.REST.QPS, c.REST.Burst = 100, 200 // the API server knows better than client-go's 5 what it can take
	clientset, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	return &Roller{c, clientset, newAccount(c.AWS), drain.Drainer{Client: clientset, Say: c.Say}}, nil
}

// Groups returns the groups that are named, or all of the cluster, in the order in which they are rolled. The error is
// an *UnknownError if one does not exist.
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

// group reads a group anew.
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

// read puts together what AWS and the cluster say of groups.
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
	var out []Group
	for i := range described {
		g := newGroup(&described[i], nodes, launchOf(&described[i], known))
		g.adopt(detached, nodes)
		out = append(out, g)
	}
	sortGroups(out)
	return out, nil
}

// adopt adds the instances that a roll has detached from the group.
func (g *Group) adopt(detached map[string]string, nodes map[string]*corev1.Node) {
	for i := range g.Members {
		delete(detached, g.Members[i].Instance) // tagged, but a member yet
	}
	for instance, group := range detached {
		if group == g.Name {
			g.Members = append(g.Members,
				Member{Instance: instance, Detached: true, Node: nodes[instance], Outdated: "detached by a roll"})
		}
	}
}

// nodes returns the nodes of instances, by instance.
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

// Roll replaces the nodes of groups that need an update, one group after the other.
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
//  1. What would stop the roll stops it before anything is changed.
//  2. The nodes that are to go are tainted, so that evicted pods prefer others.
//  3. A few instances are detached, for which the group launches others: with a surge of 0 none.
//  4. When these have joined and the cluster is valid, the detached ones are drained and terminated, and 3 comes again.
//
// It may be killed at any line: 1 and 2 change nothing twice, and instances that are detached already come first in 3.
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
		surge = 0 // its volumes of etcd can be attached to one instance at a time
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
				"terminate their nodes all the same with --fail-on-drain-error=false", n, strings.Join(bad[:min(n, 10)], "; "))
		}
	}
	return r.validate(ctx, g)
}

// detach takes the instances of a batch out of their group, unless they are.
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
				return fmt.Errorf("%w; help them and roll again, which goes on here, or terminate the node all the same with "+
					"--fail-on-drain-error=false", err)
			}
			r.Say("%s: terminating all the same: %v", g.Title(), err)
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

// validations is how often in a row the cluster has to be valid, as with kops: a node may be Ready for a moment.
const validations = 2

// validate waits until a group has its nodes, and the cluster the pods that it cannot do without.
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

// settling is what a roll waits for without a word.
const settling = "the cluster has to stay valid"

// invalid says what of a group or the cluster is not as it should be.
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

// lookEvery is how often a roll looks at what it waits for.
const lookEvery = 2 * time.Second

// await waits until left returns nothing, says what is left when that changes, and gives up after the timeout of a
// validation.
func (r *Roller) await(ctx context.Context, group string, left func() (string, error)) error {
	said, deadline := settling, r.Clock.Now().Add(r.ValidationTimeout)
	for {
		now, err := left()
		if away(err) { // as a control plane whose only node is replaced
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

// away reports whether nobody answered, which may pass.
func away(err error) bool {
	return err != nil && (net.IsConnectionRefused(err) || net.IsConnectionReset(err) || net.IsProbableEOF(err))
}
