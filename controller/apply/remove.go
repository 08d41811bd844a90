package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// remove deletes the NodeClaims that a plan removes and that may still be removed, several at a time.
func (a *Applier) remove(ctx context.Context, s *model.Snapshot, removals []model.Removal) cycle.Result {
	return parallel(a.o.Parallel, removals, func(m model.Removal) cycle.Result {
		claim, why := a.stillTrue(s, &m)
		if why != "" {
			return refused("NodeClaim "+m.Claim, why)
		}
		r, conflict := a.end(ctx, claim, &m)
		if conflict {
			return refused("NodeClaim "+m.Claim, errChanged.Error())
		}
		if len(r.Removed) > 0 {
			a.o.Metrics.Commanded(metrics.Delete, string(m.Method), 1, m.Pool)
		}
		return r
	})
}

// end requests the deletion of a NodeClaim. conflict reports that it has changed since it was read.
func (a *Applier) end(ctx context.Context, claim *karpv1.NodeClaim, m *model.Removal) (r cycle.Result, conflict bool) {
	switch err := a.delete(ctx, claim, m); {
	case err == nil:
		a.nodes.removed(claim, a.o.State.Node(m.Node), m)
		return cycle.Result{Removed: []string{m.Claim}}, false
	case apierrors.IsNotFound(err):
		a.o.State.ForgetClaim(claim)
		return r, false
	case apierrors.IsConflict(err):
		return r, true
	default:
		return failed(err), false
	}
}

// stillTrue returns the NodeClaim to be removed, or says what has changed since the plan's snapshot that forbids it.
func (a *Applier) stillTrue(s *model.Snapshot, m *model.Removal) (*karpv1.NodeClaim, string) {
	claim := a.o.State.Claim(m.Claim)
	now, ok := a.o.State.NodeOfClaim(m.Claim)
	switch {
	case claim == nil || !ok:
		return nil, "it no longer exists"
	case now.Deleting:
		return nil, "it is already being removed"
	case now.Name != m.Node:
		return nil, "its node has been replaced"
	case m.Method == model.Overprovisioned:
		return claim, "" // whatever runs there: its static pool has one node too many
	case now.DoNotDisrupt:
		return nil, "it may no longer be disrupted"
	case m.Method == model.Drifted && now.Drifted == "":
		return nil, "it is no longer drifted"
	}
	before := map[model.PodKey]bool{}
	for i := range s.Nodes {
		if s.Nodes[i].Name != m.Node {
			continue
		}
		for _, p := range s.Nodes[i].Pods {
			before[p.PodKey] = true
		}
	}
	for _, p := range now.Pods {
		switch {
		case p.Terminal:
		case p.DoNotDisrupt && !(m.Method == model.Drifted && now.Deadline):
			return nil, fmt.Sprintf("pod %s/%s may not be disrupted", p.Namespace, p.Name)
		case p.Daemon:
		case m.Method == model.Empty || !before[p.PodKey]:
			return nil, fmt.Sprintf("pod %s/%s was bound to it", p.Namespace, p.Name)
		}
	}
	return claim, ""
}

// delete writes the reason on the claim, so that it survives a restart, and requests its deletion; both fail if the
// claim is no longer as it was read.
func (a *Applier) delete(ctx context.Context, claim *karpv1.NodeClaim, m *model.Removal) error {
	noted := claim.DeepCopy()
	if noted.Annotations[translate.AnnotationDisruption] != string(m.Method) {
		metav1.SetMetaDataAnnotation(&noted.ObjectMeta, translate.AnnotationDisruption, string(m.Method))
		if err := a.o.Client.Patch(ctx, noted, locked(claim)); err != nil {
			return fmt.Errorf("annotate NodeClaim %s: %w", claim.Name, err)
		}
		a.o.State.ObserveClaim(noted)
	}
	uid, version := noted.UID, noted.ResourceVersion
	err := a.o.Client.Delete(ctx, noted.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil {
		return fmt.Errorf("delete NodeClaim %s: %w", claim.Name, err)
	}
	a.o.State.ObserveDeletion(noted)
	a.o.Metrics.ClaimDisrupted(noted, metrics.Snake(string(m.Method)))
	return nil
}
