package translate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// PoolState is what a NodePool's object does not say about it.
type PoolState struct {
	Now      time.Time
	Types    []model.InstanceType
	NotReady string // why its node class cannot be used, "" if it can
	Usage    model.Resources
	Nodes    int64
	// Budgeted is the number of initialized nodes, of which budgets take percentages. Going is how many of them count
	// against the budgets: nodes that are being removed or not ready.
	Budgeted, Going int
}

// Pool translates a NodePool. A pool that cannot be translated is NotReady, and the error names the object and field;
// the result is usable anyway.
func (n *Names) Pool(np *karpv1.NodePool, st PoolState) (model.Pool, error) {
	p := model.Pool{
		Name: np.Name, Types: st.Types, NotReady: st.NotReady, Usage: st.Usage, NodeCount: st.Nodes,
		Taints: Taints(np.Spec.Template.Spec.Taints), StartupTaints: Taints(np.Spec.Template.Spec.StartupTaints),
	}
	if np.Spec.Weight != nil {
		p.Weight = *np.Spec.Weight
	}
	if np.Spec.Replicas != nil {
		p.Static, p.Replicas = true, *np.Spec.Replicas
	}
	err := n.fillPool(&p, np, st)
	switch {
	case err != nil:
		p.NotReady = err.Error()
	case np.DeletionTimestamp != nil:
		p.NotReady = "the NodePool is being deleted"
	}
	if err != nil {
		return p, wrap("NodePool", np.Name, err)
	}
	return p, nil
}

func (n *Names) fillPool(p *model.Pool, np *karpv1.NodePool, st PoolState) error {
	own := map[string]string{karpv1.NodePoolLabelKey: np.Name}
	setClassLabel(own, np.Spec.Template.Spec.NodeClassRef)
	spec, err := Requirements(np.Spec.Template.Spec.Requirements)
	p.Requirements = spec.And(Labels(np.Spec.Template.Labels)).And(Labels(own))
	disruption, errBudget := disruptionPolicy(np, st)
	p.Disruption = disruption
	var errLimits error
	p.Limits, errLimits = n.limits(np.Spec.Limits)
	if err != nil {
		return fmt.Errorf("spec.template.%w", err)
	}
	for _, r := range p.Requirements {
		if _, asked := spec.Get(r.Key); asked && r.IsDoesNotExist() && np.Spec.Template.Labels[r.Key] != "" {
			return fmt.Errorf("spec.template.metadata.labels[%s]: contradicts spec.template.spec.requirements", r.Key)
		}
	}
	if errLimits != nil {
		return errLimits
	}
	return errBudget
}

// limits reads spec.limits. A limit that cannot be represented is an error, rather than no limit.
func (n *Names) limits(spec karpv1.Limits) (model.Limits, error) {
	var l model.Limits
	for _, resourceName := range slices.Sorted(maps.Keys(spec)) {
		name, q := string(resourceName), spec[resourceName]
		if q.Sign() < 0 {
			return l, fmt.Errorf("spec.limits.%s: %s is negative", name, q.String())
		}
		if name == "nodes" {
			l.NodesSet, l.Nodes = true, wholeNodes(q)
			continue
		}
		i, ok := n.Index(name)
		if !ok {
			return l, fmt.Errorf("spec.limits.%s: more than %d different resources are in use", name, model.MaxResources)
		}
		l.Set[i] = true
		l.Max[i] = limitAmount(q, i == model.CPU)
	}
	return l, nil
}

// limitAmount rounds down, so that the limit is never exceeded.
func limitAmount(q resource.Quantity, milli bool) int64 {
	v, _ := amount(q, milli)
	exact := resource.NewQuantity(v, resource.DecimalSI)
	if milli {
		exact = resource.NewMilliQuantity(v, resource.DecimalSI)
	}
	if exact.Cmp(q) > 0 && v < maxAmount {
		v--
	}
	return v
}

func wholeNodes(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt32) > 0 {
		return math.MaxInt32
	}
	return q.Value()
}

// disruptionPolicy reads spec.disruption and the annotations that extend it. If a budget cannot be read, it allows
// nothing.
func disruptionPolicy(np *karpv1.NodePool, st PoolState) (model.DisruptionPolicy, error) {
	d := &np.Spec.Disruption
	out := model.DisruptionPolicy{
		WhenEmptyOnly: d.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty,
		Balanced:      d.ConsolidationPolicy == karpv1.ConsolidationPolicyBalanced,
	}
	if d.ConsolidateAfter.Duration == nil {
		out.Never = true // the API server sets the default: nil means Never
	} else {
		out.ConsolidateAfter = *d.ConsolidateAfter.Duration
	}
	annotations, errAnnotations := ReadDisruptionAnnotations(np)
	annotations.into(&out, st.Now)
	if errAnnotations != nil {
		out.Unclear = errAnnotations.Error() // launches continue: the annotations affect only disruption
	}
	for reason, into := range map[karpv1.DisruptionReason]*int{
		karpv1.DisruptionReasonEmpty:         &out.AllowedEmpty,
		karpv1.DisruptionReasonDrifted:       &out.AllowedDrifted,
		karpv1.DisruptionReasonUnderutilized: &out.AllowedUnderused,
	} {
		limit, err := allowed(d.Budgets, reason, wall(st.Now, annotations.zone), st.Budgeted)
		if err != nil {
			out.AllowedEmpty, out.AllowedDrifted, out.AllowedUnderused = 0, 0, 0
			return out, err
		}
		*into = max(limit-st.Going, 0)
	}
	return out, nil
}
