package apply

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// pauseAfter is how long the nodes of a pool are not replaced after a command failed for lack of its replacements:
// what failed once tends to fail again, and each attempt costs a node.
var pauseAfter = map[string]time.Duration{"replacement_failed": time.Minute, "timeout": 5 * time.Minute}

// undo ends a command whose victims stay. First it makes the replacements ordinary NodeClaims, so that no process
// resumes the command; they stay too, since pods may be planned onto them by now. Then it releases the victims.
func (a *Applier) undo(ctx context.Context, c *activeCommand, why, message string) cycle.Result {
	var r cycle.Result
	for _, claim := range c.replacements {
		if _, err := a.setMetadata(ctx, claim, detach); err != nil {
			r.Errors = append(r.Errors, err)
		}
	}
	if len(r.Errors) > 0 {
		return r
	}
	for _, claim := range a.remaining(c) {
		if pause := pauseAfter[why]; pause > 0 {
			n, _ := a.o.State.NodeOfClaim(claim.Name)
			a.o.State.Rest(n.Pool, a.o.Clock.Now().Add(pause))
		}
		if err := a.release(ctx, claim); err != nil {
			r.Errors = append(r.Errors, err)
			continue
		}
		a.nodes.record(claim, corev1.EventTypeNormal, "DisruptionBlocked", "Disruption was abandoned: "+message)
	}
	if len(r.Errors) > 0 {
		return r
	}
	a.o.Metrics.Undone(decision(c.Command), string(c.Method), why)
	a.o.Log.Info("command undone; its nodes stay", "command", c.ID, "method", c.Method, "nodeclaims",
		victims(c.Command), "why", message)
	r.Undone = append(r.Undone, cycle.Undone{Command: c.ID, Method: c.Method, Why: why, Message: message})
	return r
}

// detach makes a replacement an ordinary NodeClaim.
func detach(claim *karpv1.NodeClaim) error {
	delete(claim.Annotations, translate.AnnotationReplaces)
	delete(claim.Annotations, translate.AnnotationReplacing)
	return nil
}

// release makes a victim an ordinary NodeClaim. If the cloud is reclaiming its instance, its Node keeps the taint.
// The annotations are removed last: until then, they identify the remaining work.
func (a *Applier) release(ctx context.Context, claim *karpv1.NodeClaim) error {
	if _, _, interrupted := translate.Interrupted(claim); !interrupted {
		if err := a.taint(ctx, claim, false); err != nil {
			return err
		}
	}
	if err := a.setConditions(ctx, claim,
		func(s status.ConditionSet) { _ = s.Clear(karpv1.ConditionTypeDisruptionReason) }); err != nil {
		return err
	}
	if now := a.o.State.Claim(claim.Name); now != nil && now.UID == claim.UID {
		claim = now
	}
	_, err := a.setMetadata(ctx, claim, func(claim *karpv1.NodeClaim) error {
		delete(claim.Annotations, translate.AnnotationCommand)
		delete(claim.Annotations, translate.AnnotationDisruption)
		return nil
	})
	return err
}

// cleanUp removes from a claim and its Node the marks of a command that does not exist: marks that were written by
// others or left behind.
func (a *Applier) cleanUp(ctx context.Context, claim *karpv1.NodeClaim, malformed bool) cycle.Result {
	claim = a.refresh(ctx, claim)
	if claim == nil || claim.DeletionTimestamp != nil {
		return cycle.Result{}
	}
	_, marked, err := translate.CommandOf(claim)
	_, _, interrupted := translate.Interrupted(claim)
	if marked && err == nil || interrupted {
		return cycle.Result{} // a command has begun, or the cloud reclaims the instance
	}
	if malformed {
		if _, _, bad := translate.ReplacingOf(claim); bad != nil {
			if claim, err = a.setMetadata(ctx, claim, detach); err != nil {
				return failed(err)
			}
		}
	}
	if err := a.release(ctx, claim); err != nil {
		return failed(err)
	}
	a.o.Log.Info("removed the marks of a disruption that is not in progress", "nodeclaim", claim.Name)
	return cycle.Result{}
}

// taintedWithoutCause returns the claims whose Node has the disrupted taint although nothing says that it is being
// removed.
func (a *Applier) taintedWithoutCause(s *model.Snapshot) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Claim == "" || !n.Deleting || n.Command != "" {
			continue
		}
		node, claim := a.o.State.Node(n.Name), a.o.State.Claim(n.Claim)
		if node == nil || claim == nil || !isTainted(node) || node.DeletionTimestamp != nil ||
			claim.DeletionTimestamp != nil {
			continue
		}
		_, _, interrupted := translate.Interrupted(claim)
		if !interrupted && !a.o.State.Ending(claim) && !translate.Terminating(claim) &&
			claim.Annotations[translate.AnnotationCommand] == "" {
			out = append(out, claim)
		}
	}
	return out
}
