package apply

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// remove deletes the claims of machines that should go, those of which it is still true, several at a time.
func (a *Applier) remove(ctx context.Context, s *model.Snapshot, removals []model.Removal, r *cycle.Result) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	for i := range removals {
		m := &removals[i]
		group.Go(func() error {
			claim, why := a.stillTrue(s, m)
			var err error
			if why == "" {
				err = a.delete(ctx, claim, m)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case why != "":
				r.Refused = append(r.Refused, cycle.Refusal{Object: "NodeClaim " + m.Claim, Why: why})
			case err == nil:
				r.Removed = append(r.Removed, m.Claim)
				a.o.Metrics.Commanded(metrics.Delete, string(m.Method), 1, m.Pool)
				a.reporter.removed(claim, a.o.State.Node(m.Node), m)
			case apierrors.IsNotFound(err):
				a.o.State.ForgetClaim(claim)
			case apierrors.IsConflict(err):
				r.Refused = append(r.Refused, cycle.Refusal{Object: "NodeClaim " + m.Claim, Why: "it has changed in the meantime"})
			default:
				r.Errors = append(r.Errors, err)
			}
			return nil
		})
	}
	_ = group.Wait() // r has all errors
}

// stillTrue compares the machine now with the plan's snapshot, and says what has changed that matters.
func (a *Applier) stillTrue(s *model.Snapshot, m *model.Removal) (*karpv1.NodeClaim, string) {
	claim := a.o.State.Claim(m.Claim)
	now, ok := a.o.State.Machine(m.Claim)
	switch {
	case claim == nil || !ok:
		return nil, "it no longer exists"
	case now.Deleting:
		return nil, "it is already being removed"
	case now.Name != m.Node:
		return nil, "its node has been replaced"
	case m.Method == model.Overprovisioned:
		return claim, "" // whatever runs there, its static pool has one too many
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

// delete notes the reason on the claim, so that it survives a restart, and asks for its deletion; both only if the
// claim is as it was read.
func (a *Applier) delete(ctx context.Context, claim *karpv1.NodeClaim, m *model.Removal) error {
	noted := claim.DeepCopy()
	if noted.Annotations[translate.AnnotationDisruption] != string(m.Method) {
		if noted.Annotations == nil {
			noted.Annotations = map[string]string{}
		}
		noted.Annotations[translate.AnnotationDisruption] = string(m.Method)
		patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
		if err := a.o.Client.Patch(ctx, noted, patch); err != nil {
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
