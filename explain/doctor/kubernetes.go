package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/crds"
)

// Scheme returns a scheme with the kinds that the checks read.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	amazon := schema.GroupVersion{Group: "karpenter.k8s.aws", Version: "v1"}
	s.AddKnownTypes(amazon, &ec2v1.EC2NodeClass{}, &ec2v1.EC2NodeClassList{})
	metav1.AddToGroupVersion(s, amazon)
	utilruntime.Must(eksv1.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

// oldest is the first version whose API server enforces the rules in the CRDs (Kubernetes 1.29 release notes: "CRD
// Validation Expression Language graduates to GA").
var oldest = version.MustParseGeneric("1.29")

// installCRDs is the remedy for kinds that are not served.
const installCRDs = "nodeless crds | kubectl apply --server-side -f -"

// kubernetes checks the version of the API server, and that it serves the CRDs in the versions that the controller
// reads.
func (c Cluster) kubernetes(ctx context.Context) Finding {
	const check = "Kubernetes"
	v, err := version.ParseGeneric(c.Version)
	switch {
	case err != nil:
		return unknown(check, err)
	case v.LessThan(oldest):
		return failed(check, "upgrade the control plane", "%s is older than %s", c.Version, oldest)
	}
	missing, err := c.missingKinds(ctx)
	switch {
	case err != nil:
		return unknown(check, err)
	case len(missing) > 0:
		return failed(check, installCRDs, "%s; not served: %s", c.Version,
			some(missing))
	}
	return fine(check, "%s; all %d kinds are served", c.Version, len(crds.All()))
}

// missingKinds returns the kinds that the API server does not serve in the versions that the controller reads.
func (c Cluster) missingKinds(ctx context.Context) ([]string, error) {
	var missing []string
	for _, want := range crds.All() {
		have := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		for _, v := range want.Spec.Versions {
			served := slices.ContainsFunc(have.Spec.Versions, func(h apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return h.Name == v.Name && h.Served
			})
			if v.Served && !served {
				missing = append(missing, want.Spec.Names.Kind+" "+want.Spec.Group+"/"+v.Name)
			}
		}
	}
	return missing, nil
}

// permissions asks the API server for each verb of the needed roles.
func (c Cluster) permissions(ctx context.Context) Finding {
	const check = "permissions"
	var asked []authorizationv1.ResourceAttributes
	for _, o := range c.Needed {
		switch r := o.(type) {
		case *rbacv1.ClusterRole:
			asked = append(asked, attributes("", r.Rules)...)
		case *rbacv1.Role:
			asked = append(asked, attributes(r.Namespace, r.Rules)...)
		}
	}
	var mu sync.Mutex
	var lacks []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(10)
	for _, a := range asked {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
			}
			if err := c.Asked.Create(ctx, review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				mu.Lock()
				defer mu.Unlock()
				lacks = append(lacks, strings.TrimSpace(strings.Trim(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")+" "+a.Name))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return unknown(check, err)
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		return failed(check, "nodeless rbac | kubectl apply -f -, and ask as the controller: "+
			"--as system:serviceaccount:NAMESPACE:NAME", "lacking: %s", some(slices.Compact(lacks)))
	}
	return fine(check, "all %d are there", len(asked))
}

// attributes splits rules into single access reviews.
func attributes(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range r.Resources {
			resource, sub, _ := strings.Cut(resource, "/")
			for _, group := range r.APIGroups {
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, authorizationv1.ResourceAttributes{
							Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Verb: verb, Name: name,
						})
					}
				}
			}
		}
	}
	return out
}

// webhook is an admission webhook, which blocks requests if it fails closed and its service does not answer.
type webhook struct {
	configuration, name string
	service             *admissionv1.ServiceReference
	fails               bool
	rules               []admissionv1.RuleWithOperations
}

// vital are the resources that launching and removing nodes depends on, by API group. Evictions and bindings are
// subresources of pods: rules match the group of the resource, not that of the object sent.
var vital = map[string][]string{
	"":                    {"pods", "nodes", "pods/eviction", "pods/binding"},
	"karpenter.sh":        {"nodeclaims", "nodepools"},
	"coordination.k8s.io": {"leases"},
}

// coversVital reports whether a webhook's rule covers a vital resource.
func coversVital(r admissionv1.RuleWithOperations) bool {
	for group, resources := range vital {
		if slices.Contains(r.APIGroups, group) || slices.Contains(r.APIGroups, "*") {
			for _, name := range resources {
				if slices.ContainsFunc(r.Resources, func(rule string) bool { return coversResource(rule, name) }) {
					return true
				}
			}
		}
	}
	return false
}

// coversResource reports whether a rule's resource, possibly with wildcards, covers a resource or subresource, as in
// the API server (k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules).
func coversResource(rule, name string) bool {
	ruleResource, ruleSub, _ := strings.Cut(rule, "/")
	resource, sub, _ := strings.Cut(name, "/")
	return (ruleResource == "*" || ruleResource == resource) && (ruleSub == "*" || ruleSub == sub)
}

// webhooks finds webhooks that fail closed and whose service has no ready endpoint.
func (c Cluster) webhooks(ctx context.Context) Finding {
	const check = "webhooks"
	all, err := c.allWebhooks(ctx)
	if err != nil {
		return unknown(check, err)
	}
	var dead []string
	for _, w := range all {
		about := slices.ContainsFunc(w.rules, coversVital)
		if w.service == nil || !w.fails || !about {
			continue
		}
		served, err := c.served(ctx, w.service)
		if err != nil {
			return unknown(check, err)
		}
		if !served {
			dead = append(dead, fmt.Sprintf("%s of %s (service %s/%s)", w.name, w.configuration, w.service.Namespace,
				w.service.Name))
		}
	}
	if len(dead) > 0 {
		return failed(check, "start what answers it, or delete the configuration",
			"no ready endpoint, and it refuses pods or nodes meanwhile: %s", some(dead))
	}
	return fine(check, "none of %d blocks", len(all))
}

func (c Cluster) allWebhooks(ctx context.Context) ([]webhook, error) {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := c.Client.List(ctx, &validating); err != nil {
		return nil, err
	}
	if err := c.Client.List(ctx, &mutating); err != nil {
		return nil, err
	}
	fails := func(p *admissionv1.FailurePolicyType) bool { return p == nil || *p == admissionv1.Fail }
	var out []webhook
	for _, v := range validating.Items {
		for _, w := range v.Webhooks {
			out = append(out, webhook{v.Name, w.Name, w.ClientConfig.Service, fails(w.FailurePolicy), w.Rules})
		}
	}
	for _, m := range mutating.Items {
		for _, w := range m.Webhooks {
			out = append(out, webhook{m.Name, w.Name, w.ClientConfig.Service, fails(w.FailurePolicy), w.Rules})
		}
	}
	return out, nil
}

// served reports whether a service has a ready endpoint.
func (c Cluster) served(ctx context.Context, s *admissionv1.ServiceReference) (bool, error) {
	var slicesOf discoveryv1.EndpointSliceList
	err := c.Client.List(ctx, &slicesOf, client.InNamespace(s.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
	for _, e := range slicesOf.Items {
		if slices.ContainsFunc(e.Endpoints, func(p discoveryv1.Endpoint) bool {
			return p.Conditions.Ready == nil || *p.Conditions.Ready
		}) {
			return true, nil
		}
	}
	return false, err
}
