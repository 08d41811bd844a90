package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// Paths of the webhook.
const (
	podsPath      = "/mutate-pods"
	workloadsPath = "/warn-workloads"
	profilesPath  = "/validate-fargateprofiles"
	loggingPath   = "/validate-aws-logging"
	poolsPath     = "/warn-nodepools"
)

// timeoutSeconds is how long API servers wait for an answer: every new pod of the cluster may wait that long when the
// controller's host is gone.
var timeoutSeconds int32 = 5

// configurations returns the configurations that the API server should have.
//
// Pods go through one of two webhooks. In namespaces that some profile names, failurePolicy is Fail: a pod that
// belongs in a microVM must not run on a shared node because the webhook did not answer. Everywhere else it is
// Ignore: the cluster keeps working without this process, and a profile that was just created applies already. The
// controller's own pods are exempt, so that it can start.
func (s *Server) configurations(bundle []byte) (*admissionv1.MutatingWebhookConfiguration,
	*admissionv1.ValidatingWebhookConfiguration,
) {
	fail, ignore := admissionv1.Fail, admissionv1.Ignore
	none, ifNeeded := admissionv1.SideEffectClassNone, admissionv1.IfNeededReinvocationPolicy
	timeout, versions := timeoutSeconds, []string{"v1"}
	write := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	create := []admissionv1.OperationType{admissionv1.Create}
	rule := func(group, version string, ops []admissionv1.OperationType,
		resources ...string,
	) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Operations: ops, Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources,
		}}
	}
	when := func(name, expression string) []admissionv1.MatchCondition {
		return []admissionv1.MatchCondition{{Name: name, Expression: expression}}
	}
	selected := s.selected()
	pods := func(name string, policy *admissionv1.FailurePolicyType,
		condition []admissionv1.MatchCondition,
	) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, ClientConfig: s.o.At.client(podsPath, bundle),
			Rules:         []admissionv1.RuleWithOperations{rule("", "v1", create, "pods")},
			FailurePolicy: policy, SideEffects: &none, AdmissionReviewVersions: versions, TimeoutSeconds: &timeout,
			ReinvocationPolicy: &ifNeeded,
			ObjectSelector:     notTheController(), MatchConditions: condition,
		}
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	mutating.Name = cmp.Or(s.o.At.mutating, fargate.MutatingWebhooks)
	mutating.Webhooks = []admissionv1.MutatingWebhook{
		pods("profiles.pods.nodeless.sh", &fail, when("a-profile-names-the-namespace", selected)),
		pods("others.pods.nodeless.sh", &ignore, when("no-profile-names-the-namespace", "!("+selected+")")),
	}
	judge := func(name, path string, condition []admissionv1.MatchCondition,
		rules ...admissionv1.RuleWithOperations,
	) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name, ClientConfig: s.o.At.client(path, bundle), Rules: rules, FailurePolicy: &ignore, SideEffects: &none,
			AdmissionReviewVersions: versions, TimeoutSeconds: &timeout, MatchConditions: condition,
		}
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	validating.Name = fargate.ValidatingWebhooks
	validating.Webhooks = []admissionv1.ValidatingWebhook{
		judge("workloads.nodeless.sh", workloadsPath, when("a-profile-names-the-namespace", selected),
			rule("apps", "v1", write, "deployments", "statefulsets"), rule("batch", "v1", write, "jobs", "cronjobs")),
		judge("fargateprofiles.nodeless.sh", profilesPath, nil, rule("nodeless.sh", "v1alpha1", write, "fargateprofiles")),
		judge("nodepools.nodeless.sh", poolsPath, nil, rule("karpenter.sh", "v1", write, "nodepools")),
		judge("aws-logging.nodeless.sh", loggingPath,
			when("it-is-aws-logging", "request.namespace == 'aws-observability' && request.name == 'aws-logging'"),
			rule("", "v1", write, "configmaps")),
	}
	return mutating, validating
}

// notTheController selects all pods but the controller's own.
func notTheController() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: fargate.ControllerLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "app.kubernetes.io/name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"nodeless"}},
	}}
}

// selected returns a CEL expression that is true if some profile's selector matches the namespace of the request.
func (s *Server) selected() string {
	var patterns []string
	for _, p := range s.o.Profiles() {
		for _, sel := range p.Spec.Selectors {
			if sel.Namespace != "" {
				patterns = append(patterns, "^"+strings.NewReplacer("*", ".*", "?", ".").Replace(sel.Namespace)+"$")
			}
		}
	}
	if len(patterns) == 0 {
		return "false"
	}
	slices.Sort(patterns)
	return fmt.Sprintf("request.namespace.matches('%s')", strings.Join(slices.Compact(patterns), "|"))
}

// configure writes the configurations that differ, and reports whether both are confirmed.
func (s *Server) configure(ctx context.Context, bundle []byte) (bool, error) {
	mutating, validating := s.configurations(bundle)
	haveM, haveV := &admissionv1.MutatingWebhookConfiguration{},
		&admissionv1.ValidatingWebhookConfiguration{}
	confirmedM, err := s.registrar.Put(ctx, mutating, haveM, func() bool {
		same := sameWebhooks(len(mutating.Webhooks), len(haveM.Webhooks), func(i int) bool {
			m, h := mutating.Webhooks[i], haveM.Webhooks[i]
			return m.Name == h.Name && equality.Semantic.DeepEqual(m.ClientConfig, h.ClientConfig) &&
				equality.Semantic.DeepEqual(m.MatchConditions, h.MatchConditions) &&
				equality.Semantic.DeepEqual(m.FailurePolicy, h.FailurePolicy) && equality.Semantic.DeepEqual(m.ObjectSelector,
				h.ObjectSelector)
		})
		haveM.Webhooks = mutating.Webhooks
		return same
	})
	if err != nil {
		return false, err
	}
	confirmedV, err := s.registrar.Put(ctx, validating, haveV, func() bool {
		same := sameWebhooks(len(validating.Webhooks), len(haveV.Webhooks), func(i int) bool {
			m, h := validating.Webhooks[i], haveV.Webhooks[i]
			return m.Name == h.Name && equality.Semantic.DeepEqual(m.ClientConfig, h.ClientConfig) &&
				equality.Semantic.DeepEqual(m.MatchConditions, h.MatchConditions) &&
				equality.Semantic.DeepEqual(m.FailurePolicy, h.FailurePolicy)
		})
		haveV.Webhooks = validating.Webhooks
		return same
	})
	if err == nil && mutating.Name != fargate.MutatingWebhooks { // left by an earlier release
		err = removeMutating(ctx, s.o.Client, fargate.MutatingWebhooks, servedAtURL)
	}
	return confirmedM && confirmedV, err
}

func sameWebhooks(a, b int, same func(i int) bool) bool {
	if a != b {
		return false
	}
	for i := range a {
		if !same(i) {
			return false
		}
	}
	return true
}

// Uninstall deletes the webhook configurations of a process that served at a URL, under the default name and under
// named, so that pods are no longer changed. A configuration that refers to a Service stays: it belongs to a
// controller in the cluster. One that another process changes meanwhile is read again, since it may belong to that one.
func Uninstall(ctx context.Context, c client.Client, named string) error {
	return uninstall(ctx, c, servedAtURL, fargate.MutatingWebhooks, named)
}

// Retire deletes the webhook configurations that refer to a Service. Its controller must no longer serve the webhook.
func Retire(ctx context.Context, c client.Client, service client.ObjectKey) error {
	return uninstall(ctx, c, func(at admissionv1.WebhookClientConfig) bool {
		return at.Service != nil && at.Service.Namespace == service.Namespace && at.Service.Name == service.Name
	}, fargate.MutatingWebhooks)
}

func servedAtURL(at admissionv1.WebhookClientConfig) bool { return at.Service == nil }

// uninstall deletes the configurations all of whose webhooks are at an obsolete place.
func uninstall(
	ctx context.Context, c client.Client, obsolete func(admissionv1.WebhookClientConfig) bool, mutating ...string,
) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		for _, name := range mutating {
			if err := removeMutating(ctx, c, name, obsolete); err != nil {
				return err
			}
		}
		validating := &admissionv1.ValidatingWebhookConfiguration{}
		validating.Name = fargate.ValidatingWebhooks
		return remove(ctx, c, validating, func() bool {
			return slices.ContainsFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
				return !obsolete(w.ClientConfig)
			})
		})
	})
}

func removeMutating(
	ctx context.Context, c client.Client, name string, obsolete func(admissionv1.WebhookClientConfig) bool,
) error {
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	mutating.Name = name
	return remove(ctx, c, mutating, func() bool {
		return slices.ContainsFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool {
			return !obsolete(w.ClientConfig)
		})
	})
}

// remove reads a configuration and deletes it, unless it is in use.
func remove(ctx context.Context, c client.Client, o client.Object, inUse func() bool) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
	if err == nil && !inUse() {
		version := o.GetResourceVersion()
		err = c.Delete(ctx, o, client.Preconditions{ResourceVersion: &version})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete webhook configuration %s: %w", o.GetName(), err)
	}
	return nil
}
