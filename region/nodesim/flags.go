package nodesim

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var unquoted = strings.NewReplacer(`"`, "", "'", "")

// setFlags applies the flags of a command line of the kubelet, --NAME=VALUE or --NAME VALUE.
func (k *kubelet) setFlags(line string) error {
	words := strings.Fields(unquoted.Replace(line))
	for i, word := range words {
		word, isFlag := strings.CutPrefix(word, "--")
		if !isFlag {
			continue // the value of the flag before it
		}
		name, value, ok := strings.Cut(word, "=")
		if !ok && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			value = words[i+1]
		}
		if err := k.setFlag(name, value); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

// setFlag applies a flag of the kubelet if it affects the Node. Labels add to those of earlier flags; all other values
// replace earlier ones.
func (k *kubelet) setFlag(name, value string) (err error) {
	switch name {
	case "node-labels":
		maps.Copy(k.Labels, amounts(value, "="))
	case "register-with-taints":
		k.Taints, err = taints(value)
	case "max-pods":
		k.MaxPods, err = strconv.Atoi(value)
	case "pods-per-core":
		k.PodsPerCore, err = strconv.Atoi(value)
	case "kube-reserved":
		k.KubeReserved = amounts(value, "=")
	case "system-reserved":
		k.SystemReserved = amounts(value, "=")
	case "eviction-hard":
		k.EvictionHard = amounts(value, "<")
	}
	return err
}

// amounts parses a list of keys and values, separated by a sign.
func amounts(list, sign string) map[string]string {
	out := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		if key, amount, ok := strings.Cut(item, sign); ok {
			out[key] = amount
		}
	}
	return out
}

// taints parses a list of taints, KEY=VALUE:EFFECT or KEY:EFFECT.
func taints(list string) (out []corev1.Taint, err error) {
	for item := range strings.SplitSeq(list, ",") {
		pair, effect, ok := strings.Cut(item, ":")
		switch {
		case list == "":
		case !ok:
			return nil, fmt.Errorf("%q is no taint, want KEY=VALUE:EFFECT", item)
		default:
			key, v, _ := strings.Cut(pair, "=")
			out = append(out, corev1.Taint{Key: key, Value: v, Effect: corev1.TaintEffect(effect)})
		}
	}
	return out, nil
}
