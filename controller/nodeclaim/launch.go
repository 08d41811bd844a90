package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// launchTimeout is how long a launch may take (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle).
const launchTimeout = 5 * time.Minute

// A class created together with its claim may be unknown or unresolved for a moment: a claim younger than classGrace
// is not deleted for that.
const (
	classGrace = 5 * time.Second
	classRetry = 250 * time.Millisecond
)

// launcher launches instances for claims. It has its own workers, so that a slow cloud stalls nothing else.
type launcher struct {
	*objects
	cloud        cloud.Provider
	outcomes     *launchOutcomes
	claims       *workqueue.Queue // reconciles claims after their launch
	launches     *workqueue.Queue
	parallel     int
	preflight    bool
	annotations  func(*karpv1.NodeClaim) map[string]string
	refreshClass func(context.Context, cloud.ClassRef)

	mu       sync.Mutex
	inFlight map[string]bool // names of the claims being launched; an instance knows its claim by name only
}

func newLauncher(shared *objects, o Options, outcomes *launchOutcomes, claims *workqueue.Queue) *launcher {
	return &launcher{
		objects: shared, cloud: o.Cloud, outcomes: outcomes, claims: claims, parallel: o.Launches, preflight: o.Preflight,
		launches:    workqueue.New("launch", o.Clock, o.Log),
		annotations: o.Annotations, refreshClass: o.RefreshClass, inFlight: map[string]bool{},
	}
}

func (l *launcher) run(ctx context.Context) { l.launches.Run(ctx, l.parallel, l.launch) }

// isInFlight reports whether a worker is launching the claim's instance.
func (l *launcher) isInFlight(claim string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight[claim]
}

func (l *launcher) setInFlight(claim string, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes {
		l.inFlight[claim] = true
	} else {
		delete(l.inFlight, claim)
	}
}

// step hands a claim without an instance to the launch workers, and gives up on one that takes too long. Each claim
// is tried at least once, however old it seems: there may have been no leader, or the API server's clock may be
// behind ours.
func (l *launcher) step(ctx context.Context, r *reconciliation) (bool, error) {
	if conditions.IsTrue(r.claim, karpv1.ConditionTypeLaunched) {
		return true, nil
	}
	left := l.until(r.claim.CreationTimestamp.Time, launchTimeout)
	flying, attempted := l.isInFlight(r.claim.Name), l.state.claims.get(r.claim.UID).attempted
	if left <= 0 && attempted && !flying {
		return false, l.outcomes.giveUp(ctx, r.claim, "launch_timeout")
	}
	r.requeueAfter(max(left, time.Second))
	if !flying && !attempted { // the launch queue retries a failed one
		l.launches.Add(r.claim.Name)
	}
	return false, nil
}

// launch launches the instance of a claim, which is reconciled afterwards, unless launch is to be called again soon.
func (l *launcher) launch(ctx context.Context, name string) (again time.Duration, err error) {
	l.setInFlight(name, true)
	defer func() {
		l.setInFlight(name, false)
		if again == 0 {
			l.claims.Add(name)
		}
	}()
	claim, err := l.readClaim(ctx, name)
	if claim == nil || err != nil || claim.DeletionTimestamp != nil || conditions.IsTrue(claim,
		karpv1.ConditionTypeLaunched) {
		return 0, err
	}
	if wait, held, err := l.held(ctx, claim); held || err != nil {
		return wait, err
	}
	l.state.claims.update(claim.UID, func(s *claimState) { s.attempted = true })
	if err := l.prepare(ctx, claim); err != nil {
		return 0, err
	}
	got, err := l.request(ctx, claim)
	l.noteExhausted(claim, &got, err)
	switch {
	case errors.Is(err, cloud.ErrNoCapacity):
		l.recorder.Event(claim, corev1.EventTypeWarning, "InsufficientCapacityError",
			fmt.Sprintf("NodeClaim %s event: %v%s", name, err, l.retryNote(claim, got.Exhausted)))
		return 0, l.deleteClaim(ctx, claim, "insufficient_capacity")
	case errors.Is(err, cloud.ErrClassNotReady) && l.until(claim.CreationTimestamp.Time, classGrace) > 0:
		return classRetry, nil
	case errors.Is(err, cloud.ErrClassUnresolved):
		return 0, l.outcomes.unknown(ctx, claim, "NodeClassNotReady", err)
	case errors.Is(err, cloud.ErrClassNotReady):
		l.recorder.Event(claim, corev1.EventTypeWarning, "NodeClassNotReady",
			fmt.Sprintf("NodeClaim %s event: %v", name, err))
		return 0, l.deleteClaim(ctx, claim, "nodeclass_not_ready")
	case claim.Labels[karpv1.NodePoolLabelKey] != "" && l.outcomes.permanent(claim, err):
		return 0, l.outcomes.refused(ctx, claim, err)
	case err != nil:
		return 0, l.outcomes.unknown(ctx, claim, launchFailed, err)
	}
	return 0, l.writeLaunched(ctx, claim, got.Instance)
}

// held reports whether a claim must not be launched now: either its class's offer has changed since the decision and
// is not known yet, or its node would have too few addresses. In the latter case the claim is deleted, so that a new
// plan decides.
func (l *launcher) held(ctx context.Context, claim *karpv1.NodeClaim) (wait time.Duration, held bool, err error) {
	if !l.preflight || l.state.claims.get(claim.UID).attempted {
		return 0, false, nil
	}
	switch unknown, fails := l.cluster.Preflight(claim); {
	case unknown:
		return classRetry, true, nil
	case !fails:
		return 0, false, nil
	}
	l.recorder.Event(claim, corev1.EventTypeWarning, "PodsWithoutAddress", "its node would take more pods than it has "+
		"addresses for, since its class or the VPC CNI has changed (--preflight=enforce)")
	return 0, true, l.deleteClaim(ctx, claim, "preflight")
}

// prepare completes a claim before its launch: without the finalizer, deleting it would leave the instance behind; the
// label identifies its class, and the annotations say what the class is like now.
func (l *launcher) prepare(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer)
	if class := cluster.ClassRef(claim.Spec.NodeClassRef); class.Name != "" {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, karpv1.NodeClassLabelKey(claim.Spec.NodeClassRef.GroupKind()), class.Name)
		if claim.Labels[karpv1.NodePoolLabelKey] == "" && l.refreshClass != nil {
			l.refreshClass(ctx, class) // a user who created the claim by hand may just have changed the class, too
		}
	}
	l.stamp(claim)
	return l.writeMeta(ctx, before, claim)
}

// stamp gives a claim the annotations of its class. They are from before the launch, so that the instance drifts if
// the class is edited during it. An instance that an earlier call may have launched keeps those of that call.
func (l *launcher) stamp(claim *karpv1.NodeClaim) {
	if l.annotations == nil {
		return
	}
	now, mayHaveInstance := l.annotations(claim), l.state.claims.get(claim.UID).mayHaveInstance
	for key := range now {
		if mayHaveInstance && claim.Annotations[key] != "" {
			return
		}
	}
	for key, value := range now {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value)
	}
}

// request asks the cloud for an instance, unless an earlier answer is still to be written.
func (l *launcher) request(ctx context.Context, claim *karpv1.NodeClaim) (cloud.LaunchResult, error) {
	before := l.state.claims.get(claim.UID)
	if before.launched != nil {
		return cloud.LaunchResult{Instance: before.launched.Instance}, nil
	}
	req, err := launchRequest(l.cluster.Names(), claim)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	req.Unavailable = l.cluster.Unavailable(req.Class)
	l.applyOverlays(&req)
	l.state.claims.update(claim.UID, func(s *claimState) { s.launching(l.now()) })
	start := l.now()
	got, err := l.cloud.Launch(ctx, req)
	l.metrics.Launched(l.now().Sub(start))
	if kind, ok := req.Requirements.Get(model.LabelCapacityType); ok && kind.Has(model.Reserved) {
		l.countReservations(ctx, req.Class)
	}
	switch {
	case err == nil:
		l.addCapacity(&req, &got.Instance)
		l.state.claims.update(claim.UID, func(s *claimState) { s.launched = &got })
		l.cluster.MarkAvailable(req.Class, model.OfferingKey{
			Type: got.Instance.Type, Zone: got.Instance.Zone, CapacityType: got.Instance.CapacityType,
		})
	case errors.Is(err, cloud.ErrNoCapacity), errors.Is(err, cloud.ErrClassNotReady),
		errors.Is(err, cloud.ErrUnauthorized), errors.Is(err, cloud.ErrRefused):
		// This call started nothing. An earlier one may have: the deletion of the claim looks for its instance.
		l.state.claims.update(claim.UID, func(s *claimState) { s.mayHaveInstance = before.mayHaveInstance })
	}
	return got, err
}

// countReservations updates the free capacity of a class's reservations, after a launch into one or the end of its
// instance.
func (l *launcher) countReservations(ctx context.Context, class cloud.ClassRef) {
	p, ok := l.cloud.(cloud.Reserver)
	if !ok {
		return
	}
	if reservations, err := p.Reservations(ctx, class); err == nil { // otherwise the class reports why
		l.cluster.SetReservations(class, reservations)
	}
}

// launchRequest translates a NodeClaim for the cloud. The caller adds Unavailable. The error names the claim's field
// that cannot be translated.
func launchRequest(n *translate.Names, claim *karpv1.NodeClaim) (cloud.LaunchRequest, error) {
	req := cloud.LaunchRequest{
		Token: string(claim.UID), Claim: claim.Name, Pool: claim.Labels[karpv1.NodePoolLabelKey],
		Class: cluster.ClassRef(claim.Spec.NodeClassRef), Instance: adopted(claim),
		Labels: maps.Clone(claim.Labels),
		Taints: translate.Taints(claim.Spec.Taints), StartupTaints: translate.Taints(claim.Spec.StartupTaints),
	}
	if req.Labels == nil {
		req.Labels = map[string]string{}
	}
	var err error
	if req.Requirements, err = translate.Requirements(claim.Spec.Requirements); err != nil {
		return req, fmt.Errorf("NodeClaim %s: %w", claim.Name, err)
	}
	if req.Requests, err = n.Resources(claim.Spec.Resources.Requests); err != nil {
		return req, fmt.Errorf("NodeClaim %s: %w", claim.Name, err)
	}
	return req, nil
}

// applyOverlays passes on the prices of NodeOverlays, and drops requests for resources that only NodeOverlays
// provide: the claim names only types that have them.
func (l *launcher) applyOverlays(req *cloud.LaunchRequest) {
	f := l.cluster.Overlaid(req.Pool)
	if f == nil {
		return
	}
	req.Prices = f.Prices
	for _, more := range f.Capacity {
		for i, n := range more {
			if n > 0 {
				req.Requests[i] = 0
			}
		}
	}
}

// noteExhausted marks the offerings that the cloud ran out of as exhausted. If another offering was launched, an
// event says so: the pods do not notice.
func (l *launcher) noteExhausted(claim *karpv1.NodeClaim, got *cloud.LaunchResult, err error) {
	keys := got.Exhausted
	if len(keys) == 0 {
		return
	}
	of := cloud.ClassRef{}
	if got.OfClass {
		of = cluster.ClassRef(claim.Spec.NodeClassRef)
	}
	l.cluster.MarkExhausted(of, keys)
	for _, k := range keys {
		l.metrics.Exhausted(k.CapacityType)
	}
	if err == nil {
		l.recorder.Event(claim, corev1.EventTypeNormal, "InsufficientCapacityError", fmt.Sprintf(
			"NodeClaim %s event: no capacity for %s; the next best was launched%s", claim.Name, offerings(keys),
			l.retryNote(claim, keys)))
	}
}

// retryNote says when the exhausted offerings are tried again for a claim's class.
func (l *launcher) retryNote(claim *karpv1.NodeClaim, keys []model.OfferingKey) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("; next retry in %s, with increasing delay",
		l.cluster.BackIn(cluster.ClassRef(claim.Spec.NodeClassRef), keys).Round(time.Second))
}

// offerings names the first few of keys.
func offerings(keys []model.OfferingKey) string {
	const maxNamed = 10
	var named []string
	for _, k := range keys[:min(len(keys), maxNamed)] {
		named = append(named, fmt.Sprintf("%s %s in %s", k.CapacityType, k.Type, k.Zone))
	}
	if more := len(keys) - maxNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return strings.Join(named, ", ")
}

// writeLaunched records on the claim what was launched: labels first, so that a Launched claim has them.
func (l *launcher) writeLaunched(ctx context.Context, claim *karpv1.NodeClaim, i cloud.Instance) error {
	before := claim.DeepCopy()
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, i.Labels)
	names := l.cluster.Names()
	claim.Status.ProviderID, claim.Status.ImageID = i.ProviderID, i.ImageID
	claim.Status.Capacity, claim.Status.Allocatable = names.ResourceList(i.Capacity), names.ResourceList(i.Allocatable)
	err := l.writeMeta(ctx, before, claim)
	if err == nil {
		found := claim.StatusConditions()
		found.SetTrue(karpv1.ConditionTypeLaunched)
		found.SetUnknownWithReason(karpv1.ConditionTypeRegistered, "NodeNotFound", "Node not registered with cluster")
		err = l.writeStatus(ctx, before, claim)
	}
	switch {
	case apierrors.IsNotFound(err):
		// The finalizer and the claim were removed in the meantime: nothing else knows of the instance yet.
		if err := l.cloud.Terminate(ctx, i.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
			return fmt.Errorf("terminate %s: %w", i.ID, err)
		}
		l.state.forgetClaim(claim.UID, i.ID)
		return nil
	case err != nil:
		return err
	}
	l.state.claims.update(claim.UID, func(s *claimState) {
		s.launched, s.attempted, s.mayHaveInstance = nil, false,
			false
	})
	l.log.Info("instance launched", "nodeclaim", claim.Name, "instance", i.ID, "type", i.Type, "zone", i.Zone,
		"capacityType", i.CapacityType)
	return nil
}
