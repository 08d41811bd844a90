package methods

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// drifted removes empty machines that are no longer as their pool and node class say. What went as empty counts against
// this budget too, since one budget may be for both. A drifted machine with pods stays until it can be replaced.
func (r *run) drifted(n *model.Node, p *model.Pool) (model.Method, model.Reason) {
	if n.Drifted == "" {
		return "", model.Reason{}
	}
	if count := occupants(n); count > 0 {
		return "", model.Reason{Rule: model.RuleNotEmpty, Object: n.Drifted, Detail: strconv.Itoa(count)}
	}
	if r.gone[p.Name] >= p.Disruption.AllowedDrifted {
		return "", model.Reason{Rule: model.RuleBudget, Object: p.Name, Detail: strconv.Itoa(max(p.Disruption.AllowedDrifted, 0))}
	}
	return model.Drifted, model.Reason{}
}
