package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// instanceTypeNotFound is a reason for drift that applies to every cloud, beside those of translate.PoolDrift
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption).
const instanceTypeNotFound = "InstanceTypeNotFound"

// How often drift is checked, and from which age on and how often the check includes whether the instance's offering
// still exists (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption).
const (
	driftInterval   = 5 * time.Minute
	driftRetry      = 30 * time.Second
	offeringMinAge  = time.Hour
	offeringRecheck = 30 * time.Minute
)

// driftCheck is the latest result about a claim.
type driftCheck struct {
	reason   string    // why it has drifted, according to the cloud; "" if it has not
	answered bool      // the cloud has answered
	asked    time.Time // when the cloud was asked; zero = ask now
	offered  time.Time // when its offering was last seen
}

// errNotAnswered means that the cloud has not been asked yet, or has not answered.
var errNotAnswered = errors.New("the cloud has not said yet whether the instance has drifted")

// poolTemplate is the part of a NodePool that decides about drift.
type poolTemplate struct {
	known        bool
	generation   int64
	hash         string
	requirements model.Requirements
}

// driftDetector compares instances with what their pools and classes currently require. Questions to the cloud have
// their own workers: many concurrent questions become one call.
type driftDetector struct {
	*objects
	cloud     cloud.Provider
	drifter   cloud.Drifter // nil if the cloud does not detect drift
	claims    *workqueue.Queue
	questions *workqueue.Queue
	templates records[types.UID, poolTemplate] // by the UID of the NodePool
}

func newDriftDetector(shared *objects, c cloud.Provider, claims *workqueue.Queue) *driftDetector {
	d := &driftDetector{
		objects: shared, cloud: c, claims: claims, questions: workqueue.New("drift", shared.clock, shared.log),
	}
	d.drifter, _ = c.(cloud.Drifter)
	return d
}

func (d *driftDetector) run(ctx context.Context) { d.questions.Run(ctx, driftWorkers, d.ask) }

// step maintains the condition Drifted, which exists only while there is drift. A claim whose pool is gone, or about
// which the cloud has no answer, keeps its condition.
func (d *driftDetector) step(ctx context.Context, r *reconciliation) (bool, error) {
	if r.pool == nil || ofGroup(r.claim) {
		return true, nil
	}
	r.requeueAfter(driftInterval)
	reason, message, err := d.drifted(ctx, r)
	found := r.claim.StatusConditions()
	switch {
	case errors.Is(err, cloud.ErrClassNotReady), errors.Is(err, errNotAnswered): // nothing to compare with yet
		return true, nil
	case err != nil:
		d.log.Warn("cannot tell whether an instance has drifted; trying again", "nodeclaim", r.claim.Name, "error", err)
		r.requeueAfter(driftRetry)
		return true, nil
	case reason == "":
		return true, found.Clear(karpv1.ConditionTypeDrifted)
	}
	found.SetTrueWithReason(karpv1.ConditionTypeDrifted, reason, message)
	return true, nil
}

// adopted returns the ID of the existing instance that a claim was created for; "" if it gets a new one.
func adopted(claim *karpv1.NodeClaim) string { return claim.Annotations[v1alpha1.AnnotationInstance] }

// ofGroup reports whether a claim's instance belongs to an Auto Scaling group. Such an instance never drifts: another
// one of the group would be no different, and instance refresh is the group's own task.
func ofGroup(claim *karpv1.NodeClaim) bool {
	ref := cluster.ClassRef(claim.Spec.NodeClassRef)
	return v1alpha1.IsNodeGroup(ref.Group, ref.Kind)
}

// drifted returns why an instance no longer matches its pool and class; the cheapest check comes first.
func (d *driftDetector) drifted(ctx context.Context, r *reconciliation) (reason, message string, err error) {
	want := d.templateOf(r.pool)
	was, version := r.claim.Annotations[karpv1.NodePoolHashAnnotationKey],
		r.claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	// Hashes of different versions cannot be compared; controller/status updates those of claims and pools.
	if was == "" || version != karpv1.NodePoolHashVersion ||
		r.pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != version {
		was = want.hash
	}
	if reason, message := translate.PoolDrift(r.claim, r.pool.Name, was, want.hash, want.requirements); reason != "" {
		return reason, message, nil
	}
	check := d.state.claims.get(r.claim.UID).drift
	there, err := d.isOffered(ctx, r, check)
	if err != nil {
		return "", "", err
	}
	if !there {
		labels := r.claim.Labels
		return instanceTypeNotFound, fmt.Sprintf("%s nodes of type %s are no longer available in %s",
			labels[model.LabelCapacityType], labels[model.LabelInstanceType], labels[model.LabelZone]), nil
	}
	if d.drifter == nil {
		return "", "", nil
	}
	// The answer arrives later and has the claim reconciled again.
	if check.asked.IsZero() || d.until(check.asked, driftInterval) <= 0 {
		d.questions.Add(r.claim.Name)
	}
	if !check.answered {
		return "", "", errNotAnswered
	}
	return check.reason, check.reason, nil
}

// isOffered reports whether the instance's offering still exists. It checks rarely: only the cloud, not the user,
// changes its catalog.
func (d *driftDetector) isOffered(ctx context.Context, r *reconciliation, check driftCheck) (bool, error) {
	left := d.until(check.offered, offeringRecheck)
	if check.offered.IsZero() {
		left = d.until(r.claim.CreationTimestamp.Time, offeringMinAge)
	}
	if left > 0 {
		r.requeueAfter(left)
		return true, nil
	}
	all, err := d.cloud.Catalog(ctx, cluster.ClassRef(r.claim.Spec.NodeClassRef))
	if err != nil {
		return false, fmt.Errorf("catalog for NodeClaim %s: %w", r.claim.Name, err)
	}
	if !hasOffering(all, r.claim.Labels) {
		return false, nil
	}
	d.state.claims.update(r.claim.UID, func(s *claimState) { s.drift.offered = d.now() })
	return true, nil
}

// hasOffering reports whether types have the offering that labels name, available or not. Catalogs list no offerings
// of reservations: a reserved instance needs its type in its zone, and cloud.Drifter says whether the class still
// selects its reservation.
func hasOffering(all []model.InstanceType, labels map[string]string) bool {
	i := slices.IndexFunc(all, func(it model.InstanceType) bool { return it.Name == labels[model.LabelInstanceType] })
	kind := labels[model.LabelCapacityType]
	return i >= 0 && slices.ContainsFunc(all[i].Offerings, func(o model.Offering) bool {
		return o.Zone == labels[model.LabelZone] && (o.CapacityType == kind || kind == model.Reserved)
	})
}

// ask asks the cloud about one claim.
func (d *driftDetector) ask(ctx context.Context, name string) (time.Duration, error) {
	claim, err := d.readClaim(ctx, name)
	if claim == nil || err != nil || claim.DeletionTimestamp != nil || claim.Status.ProviderID == "" {
		return 0, err
	}
	// Recorded before the answer: a change in the meantime triggers another question to the cloud.
	before := d.state.claims.update(claim.UID, func(s *claimState) { s.drift.asked = d.now() }).drift
	reason, err := d.drifter.Drifted(ctx, cloud.Launched{
		InstanceID: catalog.InstanceID(claim.Status.ProviderID), Class: cluster.ClassRef(claim.Spec.NodeClassRef),
		Type: claim.Labels[model.LabelInstanceType], ImageID: claim.Status.ImageID, Annotations: claim.Annotations,
	})
	switch {
	case errors.Is(err, cloud.ErrClassNotReady), errors.Is(err, cloud.ErrNotFound): // nothing to compare
		return 0, nil
	case err != nil:
		d.askAgain(claim.UID)
		return 0, err
	}
	d.state.claims.update(claim.UID, func(s *claimState) { s.drift.reason, s.drift.answered = reason, true })
	if reason != before.reason || !before.answered {
		d.claims.Add(name)
	}
	return 0, nil
}

// askAgain makes the next step ask the cloud.
func (d *driftDetector) askAgain(uid types.UID) {
	d.state.claims.update(uid, func(s *claimState) { s.drift.asked = time.Time{} })
}

// templateOf returns the part of a pool that decides about drift, computed once for each generation.
func (d *driftDetector) templateOf(pool *karpv1.NodePool) poolTemplate {
	if have := d.templates.get(pool.UID); have.known && have.generation == pool.Generation {
		return have
	}
	// A pool that cannot be read reports that itself.
	requirements, _ := translate.Requirements(pool.Spec.Template.Spec.Requirements)
	made := poolTemplate{known: true, generation: pool.Generation, hash: pool.Hash(), requirements: requirements}
	return d.templates.update(pool.UID, func(t *poolTemplate) { *t = made })
}

// classChanged makes the instances of a class be compared with it again.
func (d *driftDetector) classChanged(class cloud.ClassRef) {
	for _, c := range d.cluster.Claims() {
		if cluster.ClassRef(c.Spec.NodeClassRef) == class {
			d.askAgain(c.UID)
			d.claims.Add(c.Name)
		}
	}
}

// retain drops the records of pools that are gone.
func (d *driftDetector) retain(l living) {
	d.templates.drop(func(uid types.UID, _ *poolTemplate) bool { return !l.pools[uid] })
}
