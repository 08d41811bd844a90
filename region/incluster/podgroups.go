package incluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	webhook "github.com/nodeless/nodeless/controller/admission"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// EKS's names of the webhook that has pods ask for a branch interface (amazon-vpc-resource-controller-k8s,
// config/webhook), and the annotation with the security groups of a pod on Fargate.
const (
	policyWebhooks      = "vpc-resource-mutating-webhook"
	policyWebhook       = "mpod.vpc.k8s.aws"
	annotationPodGroups = "fargate.amazonaws.com/pod-sg"
)

// policies is the webhook that acts upon SecurityGroupPolicies. It is registered for the namespaces that have some, so
// that pods of others do not pay for it.
type policies struct {
	*Cluster
	cache cache.Cache
}

// RunSecurityGroupPolicies has new pods ask for a branch interface that a SecurityGroupPolicy selects, until ctx is
// done. The kind must be defined.
func (c *Cluster) RunSecurityGroupPolicies(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &policies{Cluster: c}
	var err error
	if p.cache, err = cache.New(c.config, cache.Options{Scheme: c.client.Scheme()}); err != nil {
		return err
	}
	changed := signal.New()
	err = informer.Watch(ctx, p.cache, &v1beta1.SecurityGroupPolicy{}, func(_, _ client.Object) { changed.Set() })
	if err != nil {
		return err
	}
	go func() { cancel(p.cache.Start(ctx)) }()
	if p.cache.WaitForCacheSync(ctx) {
		pods := webhook.Loopback{
			Configuration: policyWebhooks, Client: c.client, Log: c.log, Selectors: p.namespaces, Changed: changed,
			Mutate: p.mutate,
		}
		err = pods.Run(ctx)
	}
	return cmp.Or(context.Cause(ctx), err)
}

// namespaces selects the namespaces that have policies now.
func (p *policies) namespaces(ctx context.Context) (map[string]*metav1.LabelSelector, error) {
	var list v1beta1.SecurityGroupPolicyList
	if err := p.cache.List(ctx, &list); err != nil {
		return nil, err
	}
	in := map[string]bool{}
	for i := range list.Items {
		in[list.Items[i].Namespace] = true
	}
	if len(in) == 0 {
		return nil, nil
	}
	return map[string]*metav1.LabelSelector{policyWebhook: {MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Sorted(maps.Keys(in)),
	}}}}, nil
}

// mutate has a pod that policies select ask for a branch interface. A pod on Fargate has an annotation instead.
func (p *policies) mutate(ctx context.Context, namespace string, pod *corev1.Pod) error {
	if pod.Spec.HostNetwork || len(pod.Spec.Containers) == 0 {
		return nil // a pod on the host's network has no interface of its own
	}
	groups, err := p.groupsOf(ctx, namespace, pod)
	if err != nil {
		return fmt.Errorf("the SecurityGroupPolicies of namespace %s cannot be read: %w", namespace, err)
	}
	if _, ok := pod.Labels[fargate.ProfileLabel]; ok {
		delete(pod.Annotations, annotationPodGroups)
		if len(groups) > 0 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationPodGroups, strings.Join(groups, ","))
		}
	} else if len(groups) > 0 {
		r := &pod.Spec.Containers[0].Resources
		for _, list := range []*corev1.ResourceList{&r.Limits, &r.Requests} {
			if *list == nil {
				*list = corev1.ResourceList{}
			}
			(*list)[v1beta1.PodENI] = *resource.NewQuantity(1, resource.DecimalSI)
		}
	}
	return nil
}

// groupsOf returns the security groups of a new pod, by the policies that there are now.
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
