package disrupt

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// closing is how long before its pool's window closes no command is begun any more: replacements would be ready too late, and
// be there for nothing.
const closing = 5 * time.Minute

// shut is what a pool allows to go for a reason for which nothing may go now, whatever its budgets say.
const shut = -1

// shutNow is the pool with shut for each reason for which nothing may go now.
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
	return &out
}

func closesSoon(s *model.Snapshot, w *model.Window) bool {
	return w.Open && !w.Until.IsZero() && s.Now.Add(closing).After(w.Until)
}

// whyShut is why nothing of a pool may go now though its budgets might let it.
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

// overtaken says that the machine's pool no longer lets it go by the method, or that there is no cause for that any more.
func overtaken(s *model.Snapshot, n *model.Node, how model.Method) model.Reason {
	var d model.DisruptionPolicy
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Name == n.Pool {
			d = p.Disruption
			if d.Unclear != "" || d.Window.Binds(how) && !d.Window.Open {
				return whyShut(p)
			}
		}
	}
	switch {
	case how == model.Drifted && n.Drifted == "":
		return model.Reason{Rule: model.RuleNotDrifted, Object: n.Name}
	case how == model.Expired && !expired(s, &d, n):
		return model.Reason{Rule: model.RuleNotExpired, Object: n.Name}
	case how == model.CrowdedOut && (!d.ReplaceCrowded || len(n.MissingDaemons) == 0): // its pods that move count no more: it looks less full
		return model.Reason{Rule: model.RuleNotCrowded, Object: n.Name}
	}
	return model.Reason{}
}
