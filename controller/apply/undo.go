package apply

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// How long the pools of a command are left alone that failed for want of replacements: what failed once tends to fail
// again, and each try costs a machine.
const (
	restAfterFailure = time.Minute
	restAfterTimeout = 5 * time.Minute
)

// undo ends a command whose victims stay: first its replacements are ordinary machines, so that nobody begins it again,
// then its victims are as before. They are not removed: pods may have their place there by now.
func (a *Applier) undo(ctx context.Context, u *underway, why, message string) cycle.Result {
	var r cycle.Result
	for _, claim := range u.replacements {
		if _, err := a.change(ctx, claim, detach); err != nil {
			r.Errors = append(r.Errors, err)
		}
	}
	if len(r.Errors) > 0 {
		return r
	}
	left := a.left(u)
	for _, claim := range left {
		m, _ := a.o.State.Machine(claim.Name)
		if why == "timeout" {
			a.o.State.Rest(m.Pool, a.o.Clock.Now().Add(restAfterTimeout))
		} else if why == "replacement_failed" {
			a.o.State.Rest(m.Pool, a.o.Clock.Now().Add(restAfterFailure))
		}
		if err := a.release(ctx, claim); err != nil {
			r.Errors = append(r.Errors, err)
			continue
		}
		a.machines.tell(claim, corev1.EventTypeNormal, "DisruptionBlocked", "Disruption was abandoned: "+message)
	}
	if len(r.Errors) > 0 {
		return r
	}
	how := metrics.Delete
	if u.Launches > 0 {
		how = metrics.Replace
	}
	a.o.Metrics.Undone(how, string(u.Method), why)
	a.o.Log.Info("machines that were to go stay", "command", u.ID, "method", u.Method, "nodeclaims",
		victims(u.Command), "why", message)
	r.Undone = append(r.Undone, cycle.Undone{Command: u.ID, Method: u.Method, Why: why, Message: message})
	return r
}

// detach makes a replacement an ordinary machine.
func detach(claim *karpv1.NodeClaim) error {
	delete(claim.Annotations, translate.AnnotationReplaces)
	delete(claim.Annotations, translate.AnnotationReplacing)
	return nil
}

// release makes a victim a machine as any other; one that the cloud takes away meanwhile still refuses pods. The
// annotation goes last: until then the rest of the work is found by it.
func (a *Applier) release(ctx context.Context, claim *karpv1.NodeClaim) error {
	if _, _, interrupted := translate.Interrupted(claim); !interrupted {
		if err := a.taint(ctx, claim, false); err != nil {
			return err
		}
	}
	if err := a.condition(ctx, claim,
		func(c status.ConditionSet) { _ = c.Clear(karpv1.ConditionTypeDisruptionReason) }); err != nil {
		return err
	}
	if now := a.o.State.Claim(claim.Name); now != nil && now.UID == claim.UID {
		claim = now
	}
	_, err := a.change(ctx, claim, func(claim *karpv1.NodeClaim) error {
		delete(claim.Annotations, translate.AnnotationCommand)
		return nil
	})
	return err
}

// heal takes off a claim and its Node what no command accounts for: somebody wrote it, or forgot to take it off.
func (a *Applier) heal(ctx context.Context, claim *karpv1.NodeClaim, garbled bool) cycle.Result {
	claim = a.refresh(ctx, claim)
	if claim == nil || claim.DeletionTimestamp != nil {
		return cycle.Result{}
	}
	_, marked, err := translate.CommandOf(claim)
	_, _, interrupted := translate.Interrupted(claim)
	if marked && err == nil || interrupted {
		return cycle.Result{} // a command has come, or the cloud takes the machine away
	}
	if garbled {
		if _, _, bad := translate.ReplacingOf(claim); bad != nil {
			if claim, err = a.change(ctx, claim, detach); err != nil {
				return cycle.Result{Errors: []error{err}}
			}
		}
	}
	if err := a.release(ctx, claim); err != nil {
		return cycle.Result{Errors: []error{err}}
	}
	a.o.Log.Info("marks of a disruption that nobody carries out were removed", "nodeclaim", claim.Name)
	return cycle.Result{}
}

// tainted are the claims whose Node keeps pods away as if it went, though nothing says that it does.
func (a *Applier) tainted(s *model.Snapshot) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Claim == "" || !n.Deleting || n.Command != "" {
			continue
		}
		node, claim := a.o.State.Node(n.Name), a.o.State.Claim(n.Claim)
		if node == nil || claim == nil || !hasTaint(node) || node.DeletionTimestamp != nil || claim.DeletionTimestamp != nil {
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
