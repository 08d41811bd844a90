package roll

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Pool is a NodePool with its NodeClaims.
type Pool struct {
	*karpv1.NodePool
	Claims []karpv1.NodeClaim // sorted by name
}

// Pools returns the named NodePools, or all, sorted by name. The error is an *UnknownError if a named one does not
// exist.
func Pools(ctx context.Context, c client.Reader, names []string) ([]Pool, error) {
	var pools karpv1.NodePoolList
	var claims karpv1.NodeClaimList
	if err := c.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	if err := c.List(ctx, &claims); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	var all []Pool
	for i := range pools.Items {
		p := Pool{NodePool: &pools.Items[i]}
		for _, claim := range claims.Items {
			if claim.Labels[karpv1.NodePoolLabelKey] == p.Name {
				p.Claims = append(p.Claims, claim)
			}
		}
		slices.SortFunc(p.Claims, func(a, b karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	return chosen("NodePool", all, func(p *Pool) []string { return []string{p.Name} }, names)
}

// madeOfAnother reports whether a NodeClaim was made from a template other than its NodePool's current one. Hashes of
// different hash versions are not comparable; the controller rewrites them.
func (p *Pool) madeOfAnother(claim *karpv1.NodeClaim) bool {
	return claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == karpv1.NodePoolHashVersion &&
		claim.Annotations[karpv1.NodePoolHashAnnotationKey] != p.Hash()
}

// Outdated returns why a NodeClaim's node needs an update, or "" if it does not.
func (p *Pool) Outdated(claim *karpv1.NodeClaim) string {
	if p.madeOfAnother(claim) {
		return "the NodePool's template has changed"
	}
	if drifted := conditions.Of(claim, karpv1.ConditionTypeDrifted); drifted != nil && drifted.Status == "True" {
		return drifted.Reason
	}
	return ""
}

// Rolling reports whether a forced roll of the pool is still in progress: a NodeClaim from before it is left. One from
// after it can be made from another template, too, if the template has changed again.
func (p *Pool) Rolling() bool {
	begun, err := time.Parse(time.RFC3339, p.Spec.Template.Annotations[v1alpha1.RolledAt])
	return err == nil && slices.ContainsFunc(p.Claims, func(c karpv1.NodeClaim) bool {
		return !c.CreationTimestamp.After(begun) && p.madeOfAnother(&c)
	})
}

// Roll returns a copy of the NodePool with a change that makes all of its nodes need an update; the controller
// replaces them.
func (p *Pool) Roll(now time.Time) *karpv1.NodePool {
	out := p.DeepCopy()
	if out.Spec.Template.Annotations == nil {
		out.Spec.Template.Annotations = map[string]string{}
	}
	out.Spec.Template.Annotations[v1alpha1.RolledAt] = now.UTC().Format(time.RFC3339)
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
	return out
}

// Row returns the pool's row of the table.
func (p *Pool) Row() Row {
	r := Row{Name: p.Name, Status: Ready, Target: len(p.Claims), Problem: p.problem()}
	if n := p.Spec.Replicas; n != nil {
		replicas := int(*n)
		r.Min, r.Target = &replicas, replicas
	}
	if limit, ok := p.Spec.Limits["nodes"]; ok {
		nodes := int(limit.Value())
		r.Max = &nodes
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		if c.Status.NodeName != "" {
			r.Nodes++
		}
		switch why := p.Outdated(c); {
		case why != "":
			r.Status = NeedsUpdate
			r.Outdated = append(r.Outdated, Outdated{c.Status.NodeName, catalog.InstanceID(c.Status.ProviderID), why})
		case conditions.IsTrue(c, karpv1.ConditionTypeInitialized) && c.DeletionTimestamp == nil:
			r.Ready++
		}
	}
	switch r.NeedUpdate = len(r.Outdated); {
	case r.Problem != "":
		r.Status = Broken
	case p.Rolling():
		r.Status = Updating
	}
	return r
}

// problem returns why the pool cannot launch nodes, or "" if it can.
func (p *Pool) problem() string {
	if ready := conditions.Of(p, "Ready"); ready != nil && ready.Status == "False" {
		return strings.TrimSpace(ready.Reason + ": " + ready.Message)
	}
	return ""
}
