package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// dns finds a controller that resolves AWS endpoints through DNS pods that run only on the controller's own nodes:
// once these nodes are gone, it cannot launch others (Karpenter documentation, "Troubleshooting", on dnsPolicy).
func (c Cluster) dns(ctx context.Context) Finding {
	const check = "DNS policy"
	var controllers, servers corev1.PodList
	if err := c.Client.List(ctx, &controllers, client.InNamespace(c.Namespace)); err != nil {
		return unknown(check, err)
	}
	dependent := slices.ContainsFunc(controllers.Items, func(p corev1.Pod) bool {
		name := p.Labels["app.kubernetes.io/name"]
		clusterFirst := p.Spec.DNSPolicy == corev1.DNSClusterFirst && !p.Spec.HostNetwork ||
			p.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet
		return (name == "nodeless" || name == "karpenter") && clusterFirst
	})
	if !dependent {
		return fine(check, "no controller in namespace %s asks the cluster's DNS for AWS", c.Namespace)
	}
	dns := client.MatchingLabels{"k8s-app": "kube-dns"} // CoreDNS, or whatever else serves the cluster's DNS
	if err := c.Client.List(ctx, &servers, client.InNamespace(metav1.NamespaceSystem), dns); err != nil {
		return unknown(check, err)
	}
	for _, p := range servers.Items {
		if p.Spec.NodeName == "" {
			continue
		}
		own, err := c.launched(ctx, p.Spec.NodeName)
		if err != nil {
			return unknown(check, err)
		}
		if !own {
			return fine(check, "DNS pod %s is on a node that the controller does not launch", p.Name)
		}
	}
	return Finding{
		Check: check, Status: Warning,
		Says: "the controller asks the cluster's DNS for AWS, and no DNS pod is on a node that it does not launch: once " +
			"its nodes are gone, it can launch none",
		Remedy: "set dnsPolicy: Default in the chart's values, or keep a DNS pod on Fargate or a node group",
	}
}

// launched reports whether the controller launched the node.
func (c Cluster) launched(ctx context.Context, name string) (bool, error) {
	var n corev1.Node
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &n)
	return n.Labels[karpv1.NodePoolLabelKey] != "", client.IgnoreNotFound(err)
}
