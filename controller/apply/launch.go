package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// most name lengths: a claim's name becomes a label value and part of a host name.
const (
	mostName = 63
	shortID  = 10
)

// errTaken means that every name for a launch belongs to something else.
var errTaken = errors.New("its names are taken")

// order is a launch that may be carried out.
type order struct {
	launch *model.Launch
	pool   *karpv1.NodePool
	chosen *model.InstanceType
	expect translate.Expected
	// replaces is the command that the launch is part of, nil if it is part of none.
	replaces *translate.Command
}

// launch creates the NodeClaims that are still right, several at a time, and gives their names by launch ID.
func (a *Applier) launch(ctx context.Context, s *model.Snapshot, launches []model.Launch, r *cycle.Result) map[string]string {
	claims := map[string]string{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	known := knownClaims(s)
	for _, o := range a.admit(s, launches, newTally(), r) {
		group.Go(func() error {
			name, created, err := a.create(ctx, o, known)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errTaken):
				r.Refused = append(r.Refused, cycle.Refusal{Object: "NodeClaim " + name, Why: err.Error()})
				return nil
			case err != nil:
				r.Errors = append(r.Errors, err)
				return nil
			case created:
				r.Created = append(r.Created, name)
			default:
				r.Existing = append(r.Existing, name)
			}
			claims[o.launch.ID] = name
			return nil
		})
	}
	_ = group.Wait() // r has all errors
	return claims
}

// knownClaims are the NodeClaims that a plan knew.
func knownClaims(s *model.Snapshot) map[string]bool {
	known := map[string]bool{}
	for i := range s.Nodes {
		known[s.Nodes[i].Claim] = true
	}
	return known
}

// tally is what was admitted of one plan and is not in the cluster state yet, by pool.
type tally struct {
	used  map[string]model.Resources
	count map[string]int64
}

func newTally() *tally { return &tally{used: map[string]model.Resources{}, count: map[string]int64{}} }

// admit gives the launches whose pool still is as the plan believed, and has room for them within its limits. It
// looks at the pool and its usage now, not at the snapshot: a plan may be older than other launches.
func (a *Applier) admit(s *model.Snapshot, launches []model.Launch, taken *tally, r *cycle.Result) []order {
	var out []order
	for i := range launches {
		l := &launches[i]
		o, err := a.order(s, l)
		if err == nil {
			used, nodes := a.o.State.PoolUsage(l.Pool)
			err = a.withinLimits(o, used.Plus(taken.used[l.Pool]), nodes+taken.count[l.Pool])
		}
		if err != nil {
			r.Refused = append(r.Refused, cycle.Refusal{Object: "NodePool " + l.Pool, Why: err.Error()})
			continue
		}
		taken.used[l.Pool] = taken.used[l.Pool].Plus(o.expect.Capacity)
		taken.count[l.Pool]++
		out = append(out, o)
	}
	return out
}

// order looks up what a launch needs.
func (a *Applier) order(s *model.Snapshot, l *model.Launch) (order, error) {
	o := order{launch: l, pool: a.o.State.NodePool(l.Pool)}
	if o.pool == nil || o.pool.DeletionTimestamp != nil {
		return o, errors.New("the NodePool is gone")
	}
	var offered *model.Pool
	for i := range s.Pools {
		if s.Pools[i].Name == l.Pool {
			offered = &s.Pools[i]
		}
	}
	if offered == nil {
		return o, errors.New("the NodePool was not in the plan's snapshot")
	}
	candidates := map[string]bool{l.Chosen.Type: true}
	for _, t := range l.Types {
		candidates[t] = true
	}
	o.expect = translate.Expected{Candidate: l.Chosen}
	for i := range offered.Types {
		t := &offered.Types[i]
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

// create writes the claim, and reports whether it was not there before. A twin the plan did not know is this very
// launch, made by a former run. One it knew (another pod took its place there, or it is going) is not enough: the
// plan wants a further machine. Then the next name is made from both, so that a replay finds the same one again.
func (a *Applier) create(ctx context.Context, o order, known map[string]bool) (string, bool, error) {
	id := o.launch.ID
	name := claimName(o.launch.Pool, id)
	for range 4 {
		claim := a.o.State.Names().NewClaim(name, o.pool, *o.launch, o.chosen, o.expect)
		maps.Copy(claim.Annotations, a.o.State.OverlayAnnotations(o.launch.Pool, o.launch.Types))
		reason, command := "provisioned", ""
		if c := o.replaces; c != nil {
			reason, command = strings.ToLower(string(c.Method)), c.ID
			claim.Annotations[translate.AnnotationReplaces], claim.Annotations[translate.AnnotationReplacing] = c.ID, c.Text()
		}
		err := a.o.Client.Create(ctx, claim)
		switch {
		case err == nil:
			a.o.State.ObserveClaim(claim)
			a.o.Metrics.ClaimCreated(claim, reason)
			return name, true, nil
		case !apierrors.IsAlreadyExists(err):
			return name, false, fmt.Errorf("create NodeClaim %s: %w", name, err)
		}
		twin := &karpv1.NodeClaim{}
		if err := a.o.Client.Get(ctx, types.NamespacedName{Name: name}, twin); err != nil {
			if apierrors.IsNotFound(err) {
				continue // it has just gone: the name is free
			}
			return name, false, fmt.Errorf("read NodeClaim %s: %w", name, err)
		}
		a.o.State.ObserveClaim(twin)
		if twin.DeletionTimestamp == nil && !known[name] && twin.Annotations[translate.AnnotationLaunch] == o.launch.ID &&
			twin.Annotations[translate.AnnotationReplaces] == command {
			return name, false, nil
		}
		sum := sha256.Sum256([]byte(id + " " + string(twin.UID)))
		id = hex.EncodeToString(sum[:])
		name = claimName(o.launch.Pool, id)
	}
	return name, false, errTaken
}

// claimName is <pool>-<start of the launch's ID>, in what a label value may hold.
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
	if most := mostName - 1 - shortID; len(pool) > most {
		pool = strings.TrimRight(pool[:most], "-.")
	}
	return pool + "-" + id[:shortID]
}
