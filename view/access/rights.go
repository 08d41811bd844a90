package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const groupMetrics = "metrics.k8s.io"

func (r *Reviewer) rights(ctx context.Context, u *authn.UserInfo, t *turn) (*Rights, error) {
	who := authz.SubjectAccessReviewSpec{
		User: u.Username, Groups: u.Groups, UID: u.UID,
		Extra: map[string]authz.ExtraValue{},
	}
	for k, v := range u.Extra {
		who.Extra[k] = authz.ExtraValue(v)
	}
	out := &Rights{User: u.Username}
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	ask := func(into *bool, apiGroup, resource string) {
		group.Go(func() (err error) {
			*into, err = r.may(asking, who, apiGroup, resource, "")
			return err
		})
	}
	a := &out.Allow
	ask(&a.Nodes, "", "nodes")
	ask(&a.Pods, "", "pods")
	ask(&a.Events, "", "events")
	ask(&a.Claims, "karpenter.sh", "nodeclaims")
	ask(&a.Pools, "karpenter.sh", "nodepools")
	ask(&out.Decisions, "nodeless.sh", "decisionlogs")
	ask(&out.Usage, groupMetrics, "nodes")
	needed := engineNeeds(r.rules)
	has := make([]bool, len(needed))
	for i, n := range needed {
		ask(&has[i], n[0], n[1])
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, n := range needed {
		if !has[i] {
			out.Lacks = append(out.Lacks, strings.TrimSuffix(n[1]+"."+n[0], "."))
		}
	}
	out.Engine = len(out.Lacks) == 0
	if !a.Pods {
		if err := r.askNamespaces(ctx, who, out, t); err != nil {
			return nil, err
		}
	}
	if !a.Nodes && !a.Pods && len(a.Namespaces) == 0 {
		err := fmt.Errorf("%s %w", u.Username, ErrNothing)
		if out.Unasked > 0 {
			err = fmt.Errorf("%w; %d namespaces have not been checked yet: try again in %s", err, out.Unasked, Remember)
		}
		return nil, err
	}
	return out, nil
}

// engineNeeds returns the kinds, as group and resource, that the engine's answers depend on.
func engineNeeds(rules []rbacv1.PolicyRule) (out [][2]string) {
	for _, rule := range rules {
		for _, g := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if resource != "events" && resource != "decisionlogs" && g != groupMetrics {
					out = append(out, [2]string{g, resource})
				}
			}
		}
	}
	return out
}

// turn says where the checks of a user's namespaces stand. If there are more than mostNamespaces, each answer checks
// again those whose pods the user may list, and the next ones of the others.
type turn struct {
	allowed []string // by the last answer
	last    string   // of the others, the one that was checked last
	left    int      // of the others, how many have never been checked
}

// next returns the namespaces to check now: first those that were allowed and the user's own, if it is a service
// account. all is sorted.
func (t *turn) next(all []string, user string) []string {
	own, _, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	var now, others []string
	for _, n := range all {
		if _, known := slices.BinarySearch(t.allowed, n); known || n == own {
			now = append(now, n)
		} else {
			others = append(others, n)
		}
	}
	now = now[:min(len(now), mostNamespaces)]
	begin, found := slices.BinarySearch(others, t.last)
	if found {
		begin++
	}
	others = slices.Concat(others[begin:], others[:begin])
	if t.last == "" {
		t.left = len(others)
	}
	others = others[:min(len(others), mostNamespaces-len(now))]
	if t.left = max(t.left-len(others), 0); len(others) > 0 {
		t.last = others[len(others)-1]
	}
	if now = append(now, others...); len(now) == len(all) {
		t.last, t.left = "", 0
	}
	slices.Sort(now)
	return now
}

// askNamespaces determines, namespace by namespace, whose pods the user may list.
func (r *Reviewer) askNamespaces(ctx context.Context, who authz.SubjectAccessReviewSpec, out *Rights, t *turn) error {
	all := t.next(r.namespaces(), who.User)
	out.Unasked = t.left
	may := make([]bool, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, n := range all {
		group.Go(func() (err error) {
			may[i], err = r.may(ctx, who, "", "pods", n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, n := range all {
		if may[i] {
			out.Allow.Namespaces = append(out.Allow.Namespaces, n)
		}
	}
	t.allowed = out.Allow.Namespaces
	return nil
}

// may asks whether a user may list a kind in a namespace or, if namespace is "", in all of them.
func (r *Reviewer) may(ctx context.Context, who authz.SubjectAccessReviewSpec, group, resource,
	namespace string,
) (bool, error) {
	who.ResourceAttributes = &authz.ResourceAttributes{
		Verb: "list", Group: group, Resource: resource,
		Namespace: namespace,
	}
	review, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authz.SubjectAccessReview{Spec: who},
		metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("the API server does not say what %s may do: %w", who.User, err)
	}
	return review.Status.Allowed, nil
}
