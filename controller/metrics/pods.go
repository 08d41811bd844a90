package metrics

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

var podState = newGauge("karpenter_pods_state", "1 for each pod, with what it is and where it runs.",
	"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type",
	"phase", "ready", "managed")

func (v *view) pods(ch chan<- prometheus.Metric) {
	for i := range v.podList.Items {
		pod := &v.podList.Items[i]
		on := map[string]string{}
		if node := v.nodes[pod.Spec.NodeName]; node != nil {
			on = node.Labels
		}
		pool := on[karpv1.NodePoolLabelKey]
		podState.put(ch, 1,
			pod.Name, pod.Namespace, ownerOf(pod), pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""), pool,
			on[corev1.LabelTopologyZone], on[corev1.LabelArchStable], on[karpv1.CapacityTypeLabelKey],
			on[corev1.LabelInstanceTypeStable],
			string(pod.Status.Phase), strconv.FormatBool(condition(pod, corev1.PodReady) != nil), strconv.FormatBool(pool != ""))
	}
}

// ownerOf is the path of a pod's first owner, as Karpenter writes it.
func ownerOf(pod *corev1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return ""
	}
	o := &pod.OwnerReferences[0]
	return fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", o.APIVersion, pod.Namespace, strings.ToLower(o.Kind), o.Name)
}

// condition is a pod's condition if it is True, else nil.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
