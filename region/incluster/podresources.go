package incluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/catalog"
	webhook "github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// EKS's names for the webhook that adds requests for branch interfaces to pods (amazon-vpc-resource-controller-k8s,
// config/webhook), and the annotation with the security groups of a Fargate pod. EKS's webhook also handles Windows
// pods, for which there is a separate one here.
const (
	policyWebhooks      = "vpc-resource-mutating-webhook"
	policyWebhook       = "mpod.vpc.k8s.aws"
	windowsWebhook      = "windows.mpod.vpc.k8s.aws"
	annotationPodGroups = "fargate.amazonaws.com/pod-sg"
)

// mayBeWindows is a CEL expression that is true for all pods that might be Windows pods; podIsWindows decides.
const mayBeWindows = `object.spec.?nodeSelector[?"kubernetes.io/os"].orValue("") == "windows" ||
	object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.hasValue()`

// policies is the webhook that applies SecurityGroupPolicies and handles Windows pods. It is registered only for the
// namespaces that have policies, and for Windows pods only while the VPC CNI assigns addresses to them, so that other
// pods do not incur its cost.
type policies struct {
	*Cluster
	cache   cache.Cache
	windows atomic.Bool // Windows pods get addresses
}

// RunPodResources makes new pods request a branch interface if a SecurityGroupPolicy selects them, and Windows pods
// an address, until ctx is done. The kind SecurityGroupPolicy must be defined.
func (c *Cluster) RunPodResources(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &policies{Cluster: c}
	var err error
	if p.cache, err = cache.New(c.config, cache.Options{
		Scheme: c.client.Scheme(), ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{metav1.NamespaceSystem: {}},
			Field:      fields.OneTermEqualSelector(metav1.ObjectNameField, catalog.WindowsIPAMMap),
		}},
	}); err != nil {
		return err
	}
	changed := signal.New()
	for _, kind := range []client.Object{&v1beta1.SecurityGroupPolicy{}, &corev1.ConfigMap{}} {
		if err = informer.Watch(ctx, p.cache, kind, func(_, _ client.Object) { changed.Set() }); err != nil {
			return err
		}
	}
	go func() { cancel(p.cache.Start(ctx)) }()
	if p.cache.WaitForCacheSync(ctx) {
		pods := webhook.Loopback{
			Configuration: policyWebhooks, Client: c.client, Log: c.log, Selectors: p.namespaces, Changed: changed,
			Mutate: p.mutate, Conditions: map[string]string{windowsWebhook: mayBeWindows},
		}
		err = pods.Run(ctx)
	}
	return cmp.Or(context.Cause(ctx), err)
}

// namespaces selects the namespaces that currently have policies, and all namespaces for Windows pods.
func (p *policies) namespaces(ctx context.Context) (map[string]*metav1.LabelSelector, error) {
	var list v1beta1.SecurityGroupPolicyList
	if err := p.cache.List(ctx, &list); err != nil {
		return nil, err
	}
	var settings corev1.ConfigMap
	err := p.cache.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: catalog.WindowsIPAMMap}, &settings)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	out, in := map[string]*metav1.LabelSelector{}, map[string]bool{}
	p.windows.Store(settings.Data[catalog.WindowsIPAMKey] == "true")
	if p.windows.Load() {
		out[windowsWebhook] = &metav1.LabelSelector{}
	}
	for i := range list.Items {
		in[list.Items[i].Namespace] = true
	}
	if len(in) > 0 {
		out[policyWebhook] = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Sorted(maps.Keys(in)),
		}}}
	}
	return out, nil
}

// podIsWindows reports whether a pod requires Windows: by its node selector, or in every term of its node affinity.
func podIsWindows(pod *corev1.Pod) bool {
	if pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows) {
		return true
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == corev1.LabelOSStable && e.Operator == corev1.NodeSelectorOpIn &&
				slices.Equal(e.Values, []string{string(corev1.Windows)})
		})
	})
}

// ask makes a pod request one unit of an extended resource.
func ask(pod *corev1.Pod, name corev1.ResourceName) {
	r := &pod.Spec.Containers[0].Resources
	for _, list := range []*corev1.ResourceList{&r.Limits, &r.Requests} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = *resource.NewQuantity(1, resource.DecimalSI)
	}
}

// mutate makes a pod that policies select request a branch interface, and a Windows pod an address: Windows has no
// security groups for pods. A Fargate pod gets an annotation instead.
func (p *policies) mutate(ctx context.Context, namespace string, pod *corev1.Pod) error {
	if pod.Spec.HostNetwork || len(pod.Spec.Containers) == 0 {
		return nil // a pod on the host's network has no interface of its own
	}
	_, onFargate := pod.Labels[fargate.ProfileLabel]
	if !onFargate && podIsWindows(pod) {
		if p.windows.Load() {
			ask(pod, v1beta1.PrivateIPv4Address)
		}
		return nil
	}
	groups, err := p.groupsOf(ctx, namespace, pod)
	if err != nil {
		return fmt.Errorf("the SecurityGroupPolicies of namespace %s cannot be read: %w", namespace, err)
	}
	if onFargate {
		delete(pod.Annotations, annotationPodGroups)
		if len(groups) > 0 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationPodGroups, strings.Join(groups, ","))
		}
	} else if len(groups) > 0 {
		ask(pod, v1beta1.PodENI)
	}
	return nil
}

// groupsOf returns the security groups of a new pod according to the current policies.
func (p *policies) groupsOf(ctx context.Context, namespace string, pod *corev1.Pod) ([]string, error) {
	var list v1beta1.SecurityGroupPolicyList
	if err := p.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var account corev1.ServiceAccount
	err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod.Spec.ServiceAccountName}, &account)
	if err != nil {
		return nil, err
	}
	return v1beta1.GroupsOf(list.Items, pod.Labels, account.Labels), nil
}
