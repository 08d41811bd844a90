package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// instanceTypeNotFound is a reason of drift that every cloud has, beside those of kube.PoolDrift (karpenter.md §3.1).
const instanceTypeNotFound = "InstanceTypeNotFound"

// How often drift is looked for, and from what age on and how often whether the machine's offering still exists
// (karpenter.md §3.1).
const (
	driftEvery    = 5 * time.Minute
	offeredFrom   = time.Hour
	offeredEvery  = 30 * time.Minute
	driftAskAgain = 30 * time.Second
)

// driftCheck is what was last found out about a claim.
type driftCheck struct {
	cloud    string    // what the cloud said
	answered bool      // whether it ever said something
	asked    time.Time // when; zero: ask now
	offered  time.Time // when its offering was last seen
}

// errNotAnswered: the cloud was not asked yet, or has not answered.
var errNotAnswered = errors.New("the cloud has not said yet whether the machine has drifted")

// template is what of a NodePool decides about drift.
type template struct {
	generation   int64
	hash         string
	requirements model.Requirements
}

// drift keeps the condition Drifted, which is there only while there is drift. A machine whose pool is gone, or of which
// the cloud does not say, keeps what it has.
func (l *Lifecycle) drift(ctx context.Context, t *turn) (bool, error) {
	if t.pool == nil {
		return true, nil
	}
	t.in(driftEvery)
	reason, message, err := l.drifted(ctx, t)
	conditions := t.claim.StatusConditions()
	switch {
	case errors.Is(err, cloud.ErrClassNotReady), errors.Is(err, errNotAnswered): // nothing to compare with yet
		return true, nil
	case err != nil:
		l.o.Log.Warn("drift is not known; it is looked for again", "nodeclaim", t.claim.Name, "error", err)
		t.in(driftAskAgain)
		return true, nil
	case reason == "":
		return true, conditions.Clear(karpv1.ConditionTypeDrifted)
	}
	conditions.SetTrueWithReason(karpv1.ConditionTypeDrifted, reason, message)
	return true, nil
}

// drifted is why a machine no longer is what its pool and class ask for, the cheapest question first.
func (l *Lifecycle) drifted(ctx context.Context, t *turn) (reason, message string, err error) {
	want := l.templateOf(t.pool)
	was, version := t.claim.Annotations[karpv1.NodePoolHashAnnotationKey], t.claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	// Hashes of different versions cannot be compared; claims and pools get new ones from controller/status.
	if was == "" || version != karpv1.NodePoolHashVersion || t.pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != version {
		was = want.hash
	}
	if reason, message := translate.PoolDrift(t.claim, t.pool.Name, was, want.hash, want.requirements); reason != "" {
		return reason, message, nil
	}
	l.mu.Lock()
	check := l.drifts[t.claim.UID]
	l.mu.Unlock()
	there, err := l.offered(ctx, t, check)
	if err != nil {
		return "", "", err
	}
	if !there {
		return instanceTypeNotFound, fmt.Sprintf("%s machines of type %s can no longer be had in %s", t.claim.Labels[model.LabelCapacityType],
			t.claim.Labels[model.LabelInstanceType], t.claim.Labels[model.LabelZone]), nil
	}
	said, err := l.askDrift(t, check)
	return said, said, err
}

// offered reports whether what the machine is can still be had. It is asked seldom: the catalogue is the cloud's, not the
// user's.
func (l *Lifecycle) offered(ctx context.Context, t *turn, check driftCheck) (bool, error) {
	now := l.now()
	due := check.offered.Add(offeredEvery)
	if check.offered.IsZero() {
		due = t.claim.CreationTimestamp.Add(offeredFrom)
	}
	if now.Before(due) {
		t.in(due.Sub(now))
		return true, nil
	}
	types, err := l.o.Cloud.Catalog(ctx, translate.ClassRef(t.claim.Spec.NodeClassRef))
	if err != nil {
		return false, fmt.Errorf("catalog for NodeClaim %s: %w", t.claim.Name, err)
	}
	if !sold(types, t.claim.Labels) {
		return false, nil
	}
	l.noteOffered(t.claim.UID)
	return true, nil
}

// sold reports whether types hold the offering that labels name, whether it is to be had at the moment or not.
func sold(types []model.InstanceType, labels map[string]string) bool {
	i := slices.IndexFunc(types, func(it model.InstanceType) bool { return it.Name == labels[model.LabelInstanceType] })
	return i >= 0 && slices.ContainsFunc(types[i].Offerings, func(o model.Offering) bool {
		return o.Zone == labels[model.LabelZone] && o.CapacityType == labels[model.LabelCapacityType]
	})
}

// askDrift has the cloud asked, unless it was a short while ago and the class has not changed. Nobody waits for the answer,
// which has the claim looked at again.
func (l *Lifecycle) askDrift(t *turn, check driftCheck) (said string, err error) {
	if _, can := l.o.Cloud.(cloud.Drifter); !can {
		return "", nil
	}
	if check.asked.IsZero() || !l.now().Before(check.asked.Add(driftEvery)) {
		l.drifting.Add(t.claim.Name)
	}
	if !check.answered {
		return "", errNotAnswered
	}
	return check.cloud, nil
}

// askCloud asks the cloud about one claim. It runs on workers of its own: many questions at a time are one call.
func (l *Lifecycle) askCloud(ctx context.Context, name string) (time.Duration, error) {
	drifter, can := l.o.Cloud.(cloud.Drifter)
	claim, err := l.readClaim(ctx, name)
	if !can || claim == nil || err != nil || claim.DeletionTimestamp != nil || claim.Status.ProviderID == "" {
		return 0, err
	}
	l.mu.Lock()
	check := l.drifts[claim.UID]
	before := check
	check.asked = l.now() // before the answer: a change that comes meanwhile has it asked again
	l.drifts[claim.UID] = check
	l.mu.Unlock()
	said, err := drifter.Drifted(ctx, cloud.Launched{
		InstanceID: machineID(claim.Status.ProviderID), Class: translate.ClassRef(claim.Spec.NodeClassRef),
		Type: claim.Labels[model.LabelInstanceType], ImageID: claim.Status.ImageID, Annotations: claim.Annotations,
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	check = l.drifts[claim.UID]
	switch {
	case errors.Is(err, cloud.ErrClassNotReady), errors.Is(err, cloud.ErrNotFound): // nothing to compare, or nothing to be compared
		return 0, nil
	case err != nil:
		check.asked = time.Time{}
		l.drifts[claim.UID] = check
		return 0, err
	}
	check.cloud, check.answered = said, true
	l.drifts[claim.UID] = check
	if said != before.cloud || !before.answered {
		l.claims.Add(name)
	}
	return 0, nil
}

func (l *Lifecycle) noteOffered(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	check := l.drifts[uid]
	check.offered = l.now()
	l.drifts[uid] = check
}

// templateOf is what of a pool decides about drift, worked out once for each of its generations.
func (l *Lifecycle) templateOf(pool *karpv1.NodePool) template {
	l.mu.Lock()
	have, ok := l.templates[pool.UID]
	l.mu.Unlock()
	if ok && have.generation == pool.Generation {
		return have
	}
	requirements, _ := translate.Requirements(pool.Spec.Template.Spec.Requirements) // a pool that cannot be read says so itself
	have = template{generation: pool.Generation, hash: pool.Hash(), requirements: requirements}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.templates[pool.UID] = have
	return have
}

// ClassChanged has the machines of a class compared with it again.
func (l *Lifecycle) ClassChanged(class cloud.ClassRef) {
	if !l.leads.Load() {
		return
	}
	for _, c := range l.o.World.Claims() {
		if translate.ClassRef(c.Spec.NodeClassRef) != class {
			continue
		}
		l.mu.Lock()
		if check, ok := l.drifts[c.UID]; ok {
			check.asked = time.Time{}
			l.drifts[c.UID] = check
		}
		l.mu.Unlock()
		l.claims.Add(c.Name)
	}
}
