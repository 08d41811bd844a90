package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// nodeOwn are the labels of node metrics beside the node's well-known labels.
var nodeOwn = []string{"node_name", "phase", "managed", "resource_type"}

// nodeLabels returns the well-known labels of nodes as metric labels: the label names, and for each the keys it may
// come from. Providers add to the well-known labels at program start. Names in nodeOwn are left out.
func nodeLabels() (names []string, keys map[string][]string) {
	keys = map[string][]string{}
	for key := range karpv1.WellKnownLabels {
		if _, name, ok := strings.Cut(key, "/"); ok {
			name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
			if !slices.Contains(nodeOwn, name) {
				keys[name] = append(keys[name], key)
			}
		}
	}
	for _, k := range keys {
		slices.Sort(k)
	}
	return slices.Sorted(maps.Keys(keys)), keys
}

// use is the sum of the requests and limits of the pods on a node.
type use struct{ requests, limits, daemonRequests, daemonLimits corev1.ResourceList }

// newUse returns the use of a node without pods.
func newUse() use {
	none := func() corev1.ResourceList { return corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}} }
	return use{none(), none(), none(), none()}
}

func (v *view) nodesAndUse(ch chan<- prometheus.Metric) {
	names, keys := nodeLabels()
	perResource := append(slices.Clone(names), nodeOwn...)
	own := perResource[:len(perResource)-1] // without resource_type
	family := func(name, help string) gauge { return newGauge("karpenter_nodes_"+name, help, perResource...) }
	allocatable := family("allocatable", "What a node offers to pods.")
	overhead := family("system_overhead", "Capacity of a node less its allocatable resources.")
	requests := family("total_pod_requests", "What the pods on a node request, those of DaemonSets included.")
	limits := family("total_pod_limits", "The limits of the pods on a node, those of DaemonSets included.")
	daemonRequests := family("total_daemon_requests", "What DaemonSets' pods on a node request.")
	daemonLimits := family("total_daemon_limits", "The limits of DaemonSets' pods on a node.")
	lifetime := newGauge("karpenter_nodes_current_lifetime_seconds", "How old a node is.", own...)

	uses := v.uses()
	offered, used := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range v.nodeList.Items {
		node := &v.nodeList.Items[i]
		values := make([]string, 0, len(perResource))
		for _, name := range names {
			values = append(values, firstLabel(node, keys[name]))
		}
		values = append(values, node.Name, string(node.Status.Phase), strconv.FormatBool(v.managesNode(node)))
		lifetime.put(ch, v.now.Sub(node.CreationTimestamp.Time).Seconds(), values...)
		u, ok := uses[node.Name]
		if !ok {
			u = newUse()
		}
		for _, f := range []struct {
			gauge
			list corev1.ResourceList
		}{
			{allocatable, node.Status.Allocatable},
			{overhead, minus(node.Status.Capacity, node.Status.Allocatable)},
			{requests, u.requests},
			{limits, u.limits},
			{daemonRequests, u.daemonRequests},
			{daemonLimits, u.daemonLimits},
		} {
			for name, q := range f.list {
				f.put(ch, amount(q), append(values[:len(own):len(own)], labelValue(name))...)
			}
		}
		add(offered, node.Status.Allocatable)
		add(used, u.requests)
	}
	utilization(ch, offered, used)
}

var clusterUtilization = newGauge("karpenter_cluster_utilization_percent",
	"What all pods on nodes request, of what all nodes offer.", "resource_type")

func utilization(ch chan<- prometheus.Metric, offered, used corev1.ResourceList) {
	for name, q := range offered {
		if whole := amount(q); whole > 0 {
			clusterUtilization.put(ch, 100*amount(used[name])/whole, labelValue(name))
		}
	}
}

// uses sums up the pods of each node. Terminal pods use nothing.
func (v *view) uses() map[string]use {
	out := map[string]use{}
	for i := range v.podList.Items {
		pod := &v.podList.Items[i]
		read := translate.ReadPod(pod)
		if read.Node == "" || read.Terminal {
			continue
		}
		u, ok := out[read.Node]
		if !ok {
			u = newUse()
			out[read.Node] = u
		}
		one := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		requests, limits := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
			resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
		add(u.requests, requests)
		add(u.requests, one)
		add(u.limits, limits)
		add(u.limits, one)
		if read.DaemonSet != "" {
			add(u.daemonRequests, requests)
			add(u.daemonRequests, one)
			add(u.daemonLimits, limits)
			add(u.daemonLimits, one)
		}
	}
	return out
}

func firstLabel(node *corev1.Node, keys []string) string {
	for _, k := range keys {
		if v := node.Labels[k]; v != "" {
			return v
		}
	}
	return ""
}

func add(to, more corev1.ResourceList) {
	for name, q := range more {
		sum := to[name].DeepCopy()
		sum.Add(q)
		to[name] = sum
	}
}

func minus(a, b corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range a {
		rest := q.DeepCopy()
		rest.Sub(b[name])
		out[name] = rest
	}
	return out
}
