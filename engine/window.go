package engine

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// closing is how long before the end of a pool's window the last commands start: replacements of later ones would not
// be ready in time.
const closing = 5 * time.Minute

// shut replaces the budget of a method that may remove no node now.
const shut = -1

// shutNow returns a copy of the pool in which the budget of each method that may remove no node now is shut, and the
// others are limited by the pool's minimum.
func shutNow(s *model.Snapshot, p *model.Pool) *model.Pool {
	out := *p
	d := &out.Disruption
	for _, by := range []struct {
		how     model.Method
		allowed *int
	}{{model.Empty, &d.AllowedEmpty}, {model.Drifted, &d.AllowedDrifted}, {model.Underutilized, &d.AllowedUnderused}} {
		w := &d.Window
		if d.Unclear != "" || w.Binds(by.how) && (!w.Open || by.how != model.Empty && closesSoon(s, w)) {
			*by.allowed = shut
		}
	}
	keepMinimum(s, &out)
	return &out
}

func closesSoon(s *model.Snapshot, w *model.Window) bool {
	return w.Open && !w.Until.IsZero() && s.Now.Add(closing).After(w.Until)
}

// whyShut returns why no node of a pool may be removed now although its budgets allow it.
func whyShut(p *model.Pool) model.Reason {
	d := &p.Disruption
	if d.Unclear != "" {
		return model.Reason{Rule: model.RuleUnclear, Object: p.Name, Detail: d.Unclear}
	}
	reason := model.Reason{Rule: model.RuleWindow, Object: p.Name}
	if d.Window.Open {
		reason.Best = "closing"
	}
	if !d.Window.Until.IsZero() {
		reason.Detail = d.Window.Until.UTC().Format(time.RFC3339)
		if !d.Window.Open {
			reason.Until = d.Window.Until
		}
	}
	return reason
}

// overtaken returns a Reason if the pool no longer allows removing the node by the method, or if the cause is gone.
func overtaken(s *model.Snapshot, n *model.Node, how model.Method) model.Reason {
	var d model.DisruptionPolicy
	if p := s.Pool(n.Pool); p != nil {
		d = p.Disruption
		if d.Unclear != "" || d.Window.Binds(how) && !d.Window.Open {
			return whyShut(p)
		}
	}
	switch {
	case how == model.Drifted && n.Drifted == "":
		return model.Reason{Rule: model.RuleNotDrifted, Object: n.Name}
	case how == model.Expired && !expired(s, &d, n):
		return model.Reason{Rule: model.RuleNotExpired, Object: n.Name}
	// tooFull does not apply: the pods that move no longer count
	case how == model.CrowdedOut && (!d.ReplaceCrowded || len(n.MissingDaemons) == 0):
		return model.Reason{Rule: model.RuleNotCrowded, Object: n.Name}
	}
	return model.Reason{}
}
