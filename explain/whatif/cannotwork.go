package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/rules"
)

// CannotWorkError says why NodePools and node classes could launch nothing after a change. Such a change gets no
// forecast: its figures would describe a cluster that gets no nodes.
type CannotWorkError struct{ Why []string }

func (e *CannotWorkError) Error() string {
	return "this change cannot work: " + strings.Join(e.Why, "; ")
}

// cannotWork checks the classes and pools that a change applies, and the pools of these classes that could launch
// nodes before.
func (r *run) cannotWork(ctx context.Context, a *changedObjects, before *run) error {
	var e CannotWorkError
	bad := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(a.classes)) {
		if err := r.Cluster.Unusable(ctx, name); err != nil {
			bad[name] = true
			e.Why = append(e.Why, err.Error()+r.usedBy(name))
		}
	}
	s, was := r.cluster.Snapshot(), map[string]string{}
	for p := range slices.Values(before.cluster.Snapshot().Pools) {
		was[p.Name] = cannotLaunch(&p, &r.Policy)
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		np := r.pools[p.Name]
		if np == nil || p.Static && !r.Gates.StaticCapacity {
			continue // it waits for the gate; the outcome says so
		}
		class := aws.ClassName(cluster.ClassRef(np.Spec.Template.Spec.NodeClassRef))
		if bad[class] || r.Cluster.ClassDeleting(class) || !a.pools[p.Name] && !a.classes[class] {
			continue
		}
		if why := cannotLaunch(p, &r.Policy); why != "" && (a.pools[p.Name] || why != was[p.Name]) {
			e.Why = append(e.Why, why)
		}
	}
	if len(e.Why) > 0 {
		return &e
	}
	return nil
}

// usedBy names the pools of a class.
func (r *run) usedBy(class string) string {
	var pools []string
	for _, name := range slices.Sorted(maps.Keys(r.pools)) {
		if aws.ClassName(cluster.ClassRef(r.pools[name].Spec.Template.Spec.NodeClassRef)) == class {
			pools = append(pools, name)
		}
	}
	if len(pools) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it is the class of NodePool %s)", strings.Join(pools, ", "))
}

// cannotLaunch says why no pod at all could get a node of the pool, regardless of limits and taints; "" if some
// could.
func cannotLaunch(p *model.Pool, policy *model.Policy) string {
	open := *p
	open.Taints, open.Limits = nil, model.Limits{}
	v := rules.NewView(&open, nil)
	v.ApplyPolicy(policy)
	verdict := v.Verdict(&model.Shape{}, rules.Headroom{Nodes: 1}, nil)
	switch verdict.Rule {
	case model.RulePoolNotReady, model.RuleCatalog, model.RuleRequirement, model.RuleMinValues:
		return reason.Verdict(verdict)
	}
	return ""
}
