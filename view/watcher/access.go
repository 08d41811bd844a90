package watcher

import (
	"context"
	"fmt"
	"slices"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var karpGroup = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}

// reach checks that the API server answers.
func (f *Feed) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f.kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	switch {
	case err == nil || apierrors.IsForbidden(err): // it answers
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s of context %q does not accept your credentials (%w); log in again, or "+
			"choose another context with --context", f.o.REST.Host, f.o.Context, err)
	}
	return fmt.Errorf("the API server %s of context %q does not answer (%w); is the cluster up, and is that its "+
		"address? Choose another with --context or --kubeconfig",
		f.o.REST.Host, f.o.Context, err)
}

// mayWatch reports whether a kind is served and this user may list and watch it. If not, it says so in the model's
// notes; for Nodes it returns an error, because without them there is nothing to show.
func (f *Feed) mayWatch(ctx context.Context, s source) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.group == karpGroup.Group {
		served, err := f.served(ctx, s.resource)
		if err != nil || !served {
			return false, err
		}
	}
	for _, verb := range []string{"list", "watch"} {
		ok, err := f.may(ctx, verb, s)
		if err != nil {
			return false, err
		}
		if ok {
			continue
		}
		what := s.resource
		if s.group != "" {
			what += "." + s.group
		}
		if s.need == "" {
			return false, fmt.Errorf("context %q does not let you %s %s; ask for a ClusterRole with the verbs list and "+
				"watch on nodes (Kubernetes' own role view has none on nodes)",
				f.o.Context, verb, what)
		}
		f.o.Model.Note(s.resource, fmt.Sprintf("you may not %s %s: not shown are %s", verb, what, s.need))
		return false, nil
	}
	return true, nil
}

// may asks the API server whether this user may do something with all objects of a source.
func (f *Feed) may(ctx context.Context, verb string, s source) (bool, error) {
	review, err := f.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Verb:  verb,
			Group: s.group, Resource: s.resource, Namespace: s.namespace, Name: s.name,
		}},
	}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return true, nil // unknown; the watch will tell
	}
	if err != nil {
		return false, fmt.Errorf("context %q: ask whether you may %s %s: %w", f.o.Context, verb, s.resource, err)
	}
	return review.Status.Allowed, nil
}

// served reports whether the cluster serves a kind of karpenter.sh/v1; a cluster without it shows plain nodes.
func (f *Feed) served(ctx context.Context, resource string) (bool, error) {
	there, err := f.serves(ctx, karpGroup, resource)
	if err == nil && !there {
		f.o.Model.Note("karpenter.sh", "this cluster has no "+karpGroup.String()+": plain nodes, no pools")
	}
	return there, err
}

// serves reports whether the cluster serves a kind.
func (f *Feed) serves(ctx context.Context, group schema.GroupVersion, resource string) (bool, error) {
	list := &metav1.APIResourceList{}
	err := f.kube.Discovery().RESTClient().Get().AbsPath("/apis", group.Group, group.Version).Do(ctx).Into(list)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("context %q: ask for the kinds of %s: %w", f.o.Context, group, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}
