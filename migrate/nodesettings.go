package migrate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// nodeSettings are what user data tells the kubelet.
type nodeSettings struct {
	labels  map[string]string
	taints  []any
	kubelet map[string]any  // as in spec.kubelet of an EC2NodeClass
	byFlag  map[string]bool // settings of flags, which override the configuration
	kept    []string        // names of settings that only user data can have
	unread  []string        // names of settings whose values are not understood
}

// Settings that become a NodePool's: of KubeletConfiguration, and of the kubelet's flags.
const (
	taintsKey = "registerWithTaints"
	labelsKey = "node-labels"
)

// flagKeys are the settings of KubeletConfiguration that flags of the kubelet override.
var flagKeys = map[string]string{
	"node-labels": labelsKey, "register-with-taints": taintsKey, "max-pods": "maxPods", "cluster-dns": "clusterDNS",
	"kube-reserved": "kubeReserved", "system-reserved": "systemReserved", "eviction-hard": "evictionHard",
}

// flags reads the flags in a text, and reports whether it understands all of them.
func (s *nodeSettings) flags(text string) bool {
	all := true
	for _, m := range kubeletFlag.FindAllStringSubmatch(text, -1) {
		if !s.flag(m[1], m[2]) {
			s.unread, all = append(s.unread, "--"+m[1]), false
		}
	}
	return all
}

func (s *nodeSettings) flag(name, list string) bool {
	key, understood := flagKeys[name], true
	var items []any
	values := map[string]any{} // of a=b, or of a<b
	for one := range strings.SplitSeq(list, ",") {
		switch {
		case strings.ContainsAny(one, "$`{"): // of a shell or a template
			understood = false
		case one == "":
		case key == taintsKey:
			rest, effect, _ := strings.Cut(one, ":")
			k, v, _ := strings.Cut(rest, "=")
			items = append(items, taint(k, v, effect))
		default:
			items = append(items, one)
			k, v, found := strings.Cut(one, "<")
			if !found {
				k, v, _ = strings.Cut(one, "=")
			}
			values[k] = v
		}
	}
	if len(items) == 0 {
		return understood
	}
	if key == taintsKey && s.byFlag[key] { // in another branch of the script
		items = slices.Concat(s.taints, items)
	}
	var value any = values
	switch key {
	case taintsKey, "clusterDNS":
		value = items
	case "maxPods":
		value = items[0]
	}
	valid := s.set(key, value)
	s.byFlag[key] = s.byFlag[key] || valid
	return valid && understood
}

// set applies a setting, and reports whether a NodePool or EC2NodeClass can have its value.
func (s *nodeSettings) set(key string, v any) bool {
	switch key {
	case labelsKey:
		labels, ok := v.(map[string]any)
		for key, value := range labels {
			s.labels[key] = text(value)
		}
		return ok
	case taintsKey:
		taints, ok := taintsOf(v)
		if ok {
			s.taints = taints
		}
		return ok
	}
	value := kubeletValue(key, v)
	if value != nil {
		s.kubelet = put(s.kubelet, key, value)
	}
	return value != nil
}

// taintsOf reads taints as Kubernetes writes them, or as Bottlerocket does, and reports whether all are valid.
func taintsOf(v any) (out []any, ok bool) {
	list, ok := v.([]any)
	if byKey, rocket := v.(map[string]any); rocket {
		list, ok = bottlerocketTaints(byKey), true
	}
	for _, v := range list {
		t, _ := v.(map[string]any)
		key, effect := text(t["key"]), text(t["effect"])
		if key == "" || effect == "" {
			return nil, false
		}
		out = append(out, taint(key, text(t["value"]), effect))
	}
	return out, ok
}

// Keys that an EC2NodeClass accepts in maps of spec.kubelet.
var (
	reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	signals    = []string{
		"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"pid.available",
	}
)

// kubeletValue returns a value of a setting as spec.kubelet of an EC2NodeClass has it; nil if it cannot have it.
func kubeletValue(key string, v any) any {
	switch key {
	case "clusterDNS":
		if list := texts(listOf(v)); len(list) > 0 {
			return anys(list)
		}
		if one := text(v); one != "" {
			return []any{one}
		}
		return nil
	case "cpuCFSQuota":
		if on, ok := v.(bool); ok {
			return on
		}
		return nil
	case "kubeReserved", "systemReserved":
		return textsOf(v, reservable)
	case "evictionHard", "evictionSoft", "evictionSoftGracePeriod":
		return textsOf(v, signals)
	}
	n, err := strconv.ParseInt(text(v), 10, 32)
	if err != nil || n < 0 || n == 0 && key == "maxPods" {
		return nil
	}
	return int(n)
}

// textsOf returns a map of texts, nil if it has other keys or values.
func textsOf(v any, keys []string) any {
	in, ok := v.(map[string]any)
	out := map[string]any{}
	for key, value := range in {
		out[key] = text(value)
		ok = ok && out[key] != "" && slices.Contains(keys, key)
	}
	if !ok {
		return nil
	}
	return out
}

// nodeConfig reads a NodeConfig of nodeadm (node.eks.aws/v1alpha1), and reports whether a document is one. It returns
// what is left of the document.
func (s *nodeSettings) nodeConfig(document string) (rest string, ok bool) {
	var node yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(document))
	if decoder.Decode(&node) != nil || decoder.Decode(&yaml.Node{}) == nil {
		return "", false
	}
	value, err := (&values{left: maxValues}).of(&node, "", 0)
	config, _ := value.(map[string]any)
	if err != nil || !strings.HasPrefix(text(config["apiVersion"]), "node.eks.aws/") {
		return "", false
	}
	kubelet := child(child(config, "spec"), "kubelet")
	changed := s.settings(child(kubelet, "config"), func(key string) string { return key })
	var flags []any
	for _, v := range listOf(kubelet["flags"]) {
		one := text(v)
		if kubeletFlag.MatchString(one) && s.flags(one) {
			one, changed = strings.TrimSpace(kubeletFlag.ReplaceAllString(one, "")), true
		}
		if name, _, _ := strings.Cut(one, "="); one != "" {
			flags = append(flags, one)
			s.kept = append(s.kept, name)
		}
	}
	if !changed {
		return document, true
	}
	if kubelet["flags"] = flags; flags == nil {
		delete(kubelet, "flags")
	}
	return remaining(document, config, "spec", kubeyaml.Marshal), true
}

// bottlerocketKeys are the settings of KubeletConfiguration that Bottlerocket has in settings.kubernetes, by its names
// (bottlerocket.dev, "settings.kubernetes").
var bottlerocketKeys = map[string]string{
	"node-labels": labelsKey, "node-taints": taintsKey, "max-pods": "maxPods", "cluster-dns-ip": "clusterDNS",
	"kube-reserved": "kubeReserved", "system-reserved": "systemReserved",
	"eviction-hard": "evictionHard", "eviction-soft": "evictionSoft",
	"eviction-soft-grace-period": "evictionSoftGracePeriod", "eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
	"image-gc-high-threshold-percent": "imageGCHighThresholdPercent",
	"image-gc-low-threshold-percent":  "imageGCLowThresholdPercent", "cpu-cfs-quota-enforced": "cpuCFSQuota",
}

// bottlerocketJoins are those with which a node joins.
var bottlerocketJoins = []string{"api-server", "cluster-certificate", "cluster-name"}

// bottlerocket does for Bottlerocket's settings what nodeConfig does.
func (s *nodeSettings) bottlerocket(document string) (rest string, ok bool) {
	var config map[string]any
	if toml.Unmarshal([]byte(document), &config) != nil || child(config, "settings") == nil {
		return "", false
	}
	kubernetes := child(child(config, "settings"), "kubernetes")
	if !s.settings(kubernetes, func(name string) string { return bottlerocketKeys[name] }) {
		return document, true
	}
	return remaining(document, config, "settings", toml.Marshal), true
}

// bottlerocketTaints converts taints, of which each key has a text VALUE:EFFECT or a list of them.
func bottlerocketTaints(taints map[string]any) []any {
	var out []any
	for _, key := range slices.Sorted(maps.Keys(taints)) {
		list, ok := taints[key].([]any)
		if !ok {
			list = []any{taints[key]}
		}
		for _, v := range list {
			value, effect, _ := strings.Cut(text(v), ":")
			out = append(out, taint(key, value, effect))
		}
	}
	return out
}

// settings applies settings of the kubelet and removes those that it applied. keyOf returns what
// KubeletConfiguration calls one. It reports whether it removed any.
func (s *nodeSettings) settings(in map[string]any, keyOf func(string) string) (changed bool) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		switch key := keyOf(name); {
		case slices.Contains(bottlerocketJoins, name):
		case name == "cluster-dns-ip" && len(listOf(in[name])) > 1: // spec.kubelet gives Bottlerocket only the first
			s.kept = append(s.kept, name)
		case key != labelsKey && key != taintsKey && !slices.Contains(kubeletKeys, key):
			s.kept = append(s.kept, name)
		case s.byFlag[key] || s.set(key, in[name]):
			delete(in, name)
			changed = true
		default:
			s.unread = append(s.unread, name)
		}
	}
	return changed
}

// prune removes empty objects.
func prune(m map[string]any) {
	for key := range m {
		if inner := child(m, key); inner != nil {
			if prune(inner); len(inner) == 0 {
				delete(m, key)
			}
		}
	}
}

// remaining writes what is left of a document, or "" if it has lost what it is about.
func remaining(document string, config map[string]any, about string, marshal func(any) ([]byte, error)) string {
	prune(config)
	if config[about] == nil {
		return ""
	}
	out, err := marshal(config)
	if err != nil {
		return document
	}
	return string(out)
}
