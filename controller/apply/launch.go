package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// A claim's name becomes a label value and part of a host name.
const (
	maxName = 63
	shortID = 10
)

// order is an admitted launch.
type order struct {
	launch   *model.Launch
	pool     *karpv1.NodePool
	chosen   *model.InstanceType
	expect   translate.Expected
	replaces *translate.Command // the command that the launch is part of; nil if none
	reserves map[string]string  // annotation with the owners of its placeholders; nil if it is for other pods, too
}

// launch creates the NodeClaims of the launches that are still valid, several at a time.
func (a *Applier) launch(ctx context.Context, s *model.Snapshot, launches []model.Launch) cycle.Result {
	known := knownClaims(s)
	orders, refusals := a.admit(s, launches, newTally())
	r := parallel(a.o.Parallel, orders, func(o order) cycle.Result {
		_, part := a.create(ctx, o, known)
		return part
	})
	r.Add(cycle.Result{Refused: refusals})
	return r
}

// knownClaims returns the NodeClaims in a plan's snapshot.
func knownClaims(s *model.Snapshot) map[string]bool {
	known := map[string]bool{}
	for i := range s.Nodes {
		known[s.Nodes[i].Claim] = true
	}
	return known
}

// tally sums up, by pool, the launches of one plan that were admitted and are not in the cluster state yet.
type tally struct {
	used  map[string]model.Resources
	count map[string]int64
}

func newTally() *tally { return &tally{used: map[string]model.Resources{}, count: map[string]int64{}} }

// admit returns the launches whose pool is still as the plan assumed and has room for them within its limits. It uses
// the pool and its usage as they are now, not as in the snapshot: there may have been other launches after the plan.
func (a *Applier) admit(s *model.Snapshot, launches []model.Launch, taken *tally) ([]order, []cycle.Refusal) {
	var out []order
	var refusals []cycle.Refusal
	placeholders := s.Placeholders()
	for i := range launches {
		l := &launches[i]
		o, err := a.order(s, l)
		if err == nil {
			used, nodes := a.o.State.PoolUsage(l.Pool)
			err = a.withinLimits(o, used.Plus(taken.used[l.Pool]), nodes+taken.count[l.Pool])
		}
		if err != nil {
			refusals = append(refusals, cycle.Refusal{Object: "NodePool " + l.Pool, Why: err.Error()})
			continue
		}
		taken.used[l.Pool] = taken.used[l.Pool].Plus(o.expect.Capacity)
		taken.count[l.Pool]++
		o.reserves = reserved(placeholders, l)
		out = append(out, o)
	}
	return out, refusals
}

// order looks up the objects that a launch needs.
func (a *Applier) order(s *model.Snapshot, l *model.Launch) (order, error) {
	o := order{launch: l, pool: a.o.State.NodePool(l.Pool), expect: translate.Expected{Candidate: l.Chosen}}
	if o.pool == nil || o.pool.DeletionTimestamp != nil {
		return o, errors.New("the NodePool is gone")
	}
	at := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
	if at < 0 {
		return o, errors.New("the NodePool was not in the plan's snapshot")
	}
	candidates := map[string]bool{l.Chosen.Type: true}
	for _, t := range l.Types {
		candidates[t] = true
	}
	for i := range s.Pools[at].Types {
		t := &s.Pools[at].Types[i]
		if !candidates[t.Name] {
			continue
		}
		o.expect.Capacity = o.expect.Capacity.Max(t.Capacity)
		if t.Name == l.Chosen.Type {
			o.chosen, o.expect.Allocatable = t, t.Allocatable
		}
	}
	if o.chosen == nil {
		return o, fmt.Errorf("the NodePool does not offer type %s", l.Chosen.Type)
	}
	return o, nil
}

func (a *Applier) withinLimits(o order, used model.Resources, nodes int64) error {
	p, err := a.o.State.Names().Pool(o.pool, translate.PoolState{Now: a.o.Clock.Now()})
	if err != nil {
		return err
	}
	if p.Limits.NodesSet && nodes+1 > p.Limits.Nodes {
		return fmt.Errorf("limit of %d nodes is reached", p.Limits.Nodes)
	}
	names := a.o.State.Names().List()
	for i, set := range p.Limits.Set {
		if set && o.expect.Capacity[i] > 0 && used[i]+o.expect.Capacity[i] > p.Limits.Max[i] {
			return fmt.Errorf("limit of %s %s would be exceeded: %s in use, %s more wanted", names[i],
				model.Quantity(names[i], p.Limits.Max[i]), model.Quantity(names[i], used[i]),
				model.Quantity(names[i], o.expect.Capacity[i]))
		}
	}
	return nil
}

// create writes the NodeClaim of a launch and returns its name. If a claim with that name exists (a twin) and the
// plan did not know it, it is this very launch, made by an earlier process or by a call whose response was lost. If
// the plan knew it, it is another launch: its pods were replaced by others, or it is being deleted, and the plan
// requests a further node. The next name is then derived from both, so that a repetition finds the same one again.
func (a *Applier) create(ctx context.Context, o order, known map[string]bool) (string, cycle.Result) {
	id := o.launch.ID
	name := claimName(o.launch.Pool, id)
	for range 4 {
		claim := a.o.State.Names().NewClaim(name, o.pool, *o.launch, o.chosen, o.expect)
		maps.Copy(claim.Annotations, a.o.State.OverlayAnnotations(o.launch.Pool, o.launch.Types))
		maps.Copy(claim.Annotations, o.reserves)
		if drivers := a.o.State.DeviceDrivers(o.expect.Candidate.Type, o.launch.Requests); drivers != "" {
			claim.Annotations[karpv1.DRADriversAnnotationKey] = drivers
		}
		reason, command := "provisioned", ""
		if c := o.replaces; c != nil {
			reason, command = strings.ToLower(string(c.Method)), c.ID
			claim.Annotations[translate.AnnotationReplaces], claim.Annotations[translate.AnnotationReplacing] = c.ID, c.Text()
		}
		claims := map[string]string{o.launch.ID: name}
		err := a.o.Client.Create(ctx, claim)
		switch {
		case err == nil:
			a.o.State.ObserveClaim(claim)
			a.o.Metrics.ClaimCreated(claim, reason)
			return name, cycle.Result{Created: []string{name}, Claims: claims}
		case !mayExist(err):
			return name, failed(fmt.Errorf("create NodeClaim %s: %w", name, err))
		}
		twin := &karpv1.NodeClaim{}
		switch unread := a.o.Client.Get(ctx, types.NamespacedName{Name: name}, twin); {
		case unread == nil:
		case !apierrors.IsAlreadyExists(err):
			return name, failed(fmt.Errorf("create NodeClaim %s: %w", name, err))
		case apierrors.IsNotFound(unread):
			continue // it has just been deleted: the name is free
		default:
			return name, failed(fmt.Errorf("read NodeClaim %s: %w", name, unread))
		}
		a.o.State.ObserveClaim(twin)
		if twin.DeletionTimestamp == nil && !known[name] && twin.Annotations[translate.AnnotationLaunch] == o.launch.ID &&
			twin.Annotations[translate.AnnotationReplaces] == command {
			return name, cycle.Result{Existing: []string{name}, Claims: claims}
		}
		sum := sha256.Sum256([]byte(id + " " + string(twin.UID)))
		id = hex.EncodeToString(sum[:])
		name = claimName(o.launch.Pool, id)
	}
	return name, refused("NodeClaim "+name, "its names are taken")
}

// mayExist reports whether an object may exist although an attempt to create it failed: another attempt may have
// succeeded, or this one did and its response was lost.
func mayExist(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonAlreadyExists, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonUnknown:
		return true
	}
	return false
}

// claimName returns <pool>-<start of the launch's ID>, in the characters of a label value.
func claimName(pool, id string) string {
	id = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(id))
	if len(id) < shortID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	if limit := maxName - 1 - shortID; len(pool) > limit {
		pool = strings.TrimRight(pool[:limit], "-.")
	}
	return pool + "-" + id[:shortID]
}
