package disrupt

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// cause returns why a node is to be replaced even if it is worth its price, and since when; "" if it is not: it has
// drifted or, if its pool says so, is too old or has no room for a DaemonSet's pod.
func cause(s *model.Snapshot, d *model.DisruptionPolicy, n *model.Node) (model.Method, time.Time) {
	switch {
	case n.Drifted != "":
		return model.Drifted, n.DriftedSince
	case expired(s, d, n):
		return model.Expired, n.Created.Add(d.SoftExpireAfter)
	case d.ReplaceCrowded && tooFull(n):
		for _, l := range n.MissingDaemons {
			if !s.Now.Before(l.Since.Add(model.CrowdedOutAfter)) {
				return model.CrowdedOut, l.Since
			}
		}
	}
	return "", time.Time{}
}

func (r *run) cause(n *model.Node) model.Method {
	how, _ := cause(r.s, &r.pools[n.Pool].Disruption, n)
	return how
}

func expired(s *model.Snapshot, d *model.DisruptionPolicy, n *model.Node) bool {
	return d.SoftExpireAfter > 0 && n.Claim != "" && !s.Now.Before(n.Created.Add(d.SoftExpireAfter))
}

// tooFull reports whether pods request more than the node has, including DaemonSet pods that wait for it.
func tooFull(n *model.Node) bool {
	free := n.Free()
	return slices.ContainsFunc(free[:], func(left int64) bool { return left < 0 })
}

// noHelp rejects a plan that moves all pods of a node without room for a DaemonSet's pod to another one of the same
// type: that type has proven to have less room than it promises.
func (r *drift) noHelp(n *model.Node, plan *model.Plan) model.Reason {
	moving := 0
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			moving++
		}
	}
	if r.cause(n) != model.CrowdedOut || len(plan.Launches) != 1 || len(plan.Launches[0].Pods) < moving {
		return model.Reason{}
	}
	if l := &plan.Launches[0]; slices.Contains(l.Types, n.Type) {
		return model.Reason{Rule: model.RuleNoHelp, Object: n.MissingDaemons[0].DaemonSet, BestOf: n.Type}
	}
	return model.Reason{}
}

// outdated reports whether the node is to be replaced.
func (w *projection) outdated(n *model.Node) bool {
	var d model.DisruptionPolicy // of a node without a pool only drift is known
	if p := w.s.Pool(n.Pool); p != nil {
		d = p.Disruption
	}
	how, _ := cause(w.s, &d, n)
	return how != ""
}
