package nodesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// settings is the part of Bottlerocket's settings that decides what a Node looks like (bottlerocket.dev,
// "settings.kubernetes").
type settings struct {
	Settings struct {
		Kubernetes struct {
			ClusterName    string            `toml:"cluster-name"`
			MaxPods        int               `toml:"max-pods"`
			NodeLabels     map[string]string `toml:"node-labels"`
			NodeTaints     map[string]any    `toml:"node-taints"` // "VALUE:EFFECT", or a list of them
			KubeReserved   map[string]string `toml:"kube-reserved"`
			SystemReserved map[string]string `toml:"system-reserved"`
			EvictionHard   map[string]string `toml:"eviction-hard"`
		} `toml:"kubernetes"`
	} `toml:"settings"`
}

// bottlerocketSettings reads user data in TOML; found is false if it is not, or names no cluster.
func bottlerocketSettings(data []byte) (k kubelet, found bool, err error) {
	k.Labels = map[string]string{}
	var s settings
	if toml.Unmarshal(data, &s) != nil || s.Settings.Kubernetes.ClusterName == "" {
		return k, false, nil
	}
	from := s.Settings.Kubernetes
	k = kubelet{
		Cluster: from.ClusterName, Labels: from.NodeLabels, MaxPods: from.MaxPods, Bottlerocket: true,
		KubeReserved: from.KubeReserved, SystemReserved: from.SystemReserved, EvictionHard: from.EvictionHard,
	}
	for _, key := range slices.Sorted(maps.Keys(from.NodeTaints)) {
		list, ok := from.NodeTaints[key].([]any)
		if !ok {
			list = []any{from.NodeTaints[key]}
		}
		for _, v := range list {
			value, effect, ok := strings.Cut(fmt.Sprint(v), ":")
			if !ok {
				return k, true, fmt.Errorf(`user data: settings.kubernetes.node-taints.%q is %q, want "VALUE:EFFECT"`, key, v)
			}
			k.Taints = append(k.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return k, true, nil
}

// osImage is what the machine's operating system calls itself.
func (k kubelet) osImage() string {
	if k.Bottlerocket {
		return "Bottlerocket OS (simulated)"
	}
	return "Amazon Linux 2023 (simulated)"
}
