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

// remove deletes the NodeClaims that a plan removes, unless they may no longer be removed, several at a time.
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

// stillTrue returns the NodeClaim to be removed, or says which change since the plan's snapshot forbids it.
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
		return claim, "" // its static pool has one node too many, whatever runs on it
	case now.DoNotDisrupt:
		return nil, "it may no longer be disrupted"
	case m.Method == model.Drifted && now.Drifted == "":
		return nil, "it is no longer drifted"
	}
	return claim, podAgainst(s, m, &now)
}

// podAgainst says which pod on the node, as it is now, forbids its removal; "" if none does.
func podAgainst(s *model.Snapshot, m *model.Removal, now *model.Node) string {
	before := map[model.PodKey]bool{}
	for i := range s.Nodes {
		if s.Nodes[i].Name != m.Node {
			continue
		}
		for _, p := range s.Nodes[i].Pods {
			before[p.PodKey] = true
		}
	}
	for i := range now.Pods {
		switch p := &now.Pods[i]; {
		case p.Terminal:
		case p.DoNotDisrupt && !p.Terminating && !(m.Method == model.Drifted && now.Deadline):
			return fmt.Sprintf("pod %s/%s may not be disrupted", p.Namespace, p.Name)
		case !p.Occupies():
		case m.Method == model.Empty || !before[p.PodKey]:
			return fmt.Sprintf("pod %s/%s was bound to it", p.Namespace, p.Name)
		}
	}
	return ""
}

// delete writes the reason to the claim, so that it survives a restart, and requests the claim's deletion; both fail
// if the claim has changed since it was read.
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
