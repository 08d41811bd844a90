package aws

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/pelletier/go-toml/v2"
)

// mountCommand is the bootstrap command that puts Bottlerocket's node storage on the local NVMe disks, with Karpenter's
// name and content (github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap/bottlerocket.go). All
// versions know --dirs.
const mountCommand = "000-mount-instance-storage"

func mountLocalDisks() map[string]any {
	return map[string]any{
		"commands": [][]string{
			{"apiclient", "ephemeral-storage", "init"},
			{"apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"},
		},
		"mode": "always", "essential": true,
	}
}

// bottlerocket returns Bottlerocket's settings as TOML: the class's own, and in settings.kubernetes those that the
// cluster, the class and the NodePool determine, which take precedence. Labels are merged. Taints are the NodePool's
// alone, as in Karpenter: pods are not placed by any others. Tables and keys are sorted, so that equal settings give
// equal text.
func (b bootConfig) bottlerocket(custom string) (string, error) {
	all := map[string]any{}
	if err := toml.Unmarshal([]byte(custom), &all); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := at.Position()
			err = fmt.Errorf("line %d: %w", row, err)
		}
		return "", fmt.Errorf("spec.userData of %s: Bottlerocket's settings must be TOML: %w", title(b.class), err)
	}
	settings, err := subtable(all, "settings")
	if err == nil {
		err = b.addKubernetes(settings)
	}
	if err == nil && b.isRAID0() {
		err = addMount(settings)
	}
	if err != nil {
		return "", fmt.Errorf("spec.userData of %s: %w", title(b.class), err)
	}
	text, err := toml.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("render Bottlerocket's settings for %s: %w", title(b.class), err)
	}
	return string(text), nil
}

// subtable returns a table in a TOML table, which it adds if there is none.
func subtable(in map[string]any, name string) (map[string]any, error) {
	value, ok := in[name]
	if !ok {
		value = map[string]any{}
		in[name] = value
	}
	out, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %v, must be a TOML table", name, value)
	}
	return out, nil
}

// addMount adds the command for the local disks, unless the class has one of that name.
func addMount(settings map[string]any) error {
	commands, err := subtable(settings, "bootstrap-commands")
	if err != nil {
		return err
	}
	if _, own := commands[mountCommand]; !own {
		commands[mountCommand] = mountLocalDisks()
	}
	return nil
}

// addKubernetes adds settings.kubernetes (bottlerocket.dev, "settings.kubernetes").
func (b bootConfig) addKubernetes(settings map[string]any) error {
	out, err := subtable(settings, "kubernetes")
	if err != nil {
		return err
	}
	labels, err := subtable(out, "node-labels")
	if err != nil {
		return err
	}
	for key, value := range b.labels {
		labels[key] = value
	}
	taints := map[string][]string{}
	for _, t := range b.taints {
		taints[t.Key] = append(taints[t.Key], t.Value+":"+string(t.Effect))
	}
	out["node-taints"] = taints
	out["api-server"], out["cluster-name"] = b.options.ClusterEndpoint, b.options.ClusterName
	out["cluster-certificate"] = base64.StdEncoding.EncodeToString(b.options.ClusterCA)
	if _, own := out["cluster-dns-ip"]; !own && b.options.ClusterDNS != "" {
		out["cluster-dns-ip"] = b.options.ClusterDNS
	}
	if k := b.class.Spec.Kubelet; k != nil {
		addKubelet(out, k)
	}
	if b.maxPods != nil {
		out["max-pods"] = *b.maxPods
	}
	if isAuto(b.class) {
		out["hostname-override-source"] = "instance-id"
	}
	return nil
}

// addKubelet adds the settings of spec.kubelet for which Bottlerocket has one. Its percentages are strings.
func addKubelet(out map[string]any, k *ec2v1.KubeletConfiguration) {
	grace := map[string]string{}
	for signal, d := range k.EvictionSoftGracePeriod {
		grace[signal] = d.Duration.String()
	}
	for name, values := range map[string]map[string]string{
		"kube-reserved": k.KubeReserved, "system-reserved": k.SystemReserved, "eviction-hard": k.EvictionHard,
		"eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": grace,
	} {
		if len(values) > 0 {
			out[name] = values
		}
	}
	for name, percent := range map[string]*int32{
		"image-gc-high-threshold-percent": k.ImageGCHighThresholdPercent,
		"image-gc-low-threshold-percent":  k.ImageGCLowThresholdPercent,
	} {
		if percent != nil {
			out[name] = strconv.Itoa(int(*percent))
		}
	}
	if k.EvictionMaxPodGracePeriod != nil {
		out["eviction-max-pod-grace-period"] = *k.EvictionMaxPodGracePeriod
	}
	if k.CPUCFSQuota != nil {
		out["cpu-cfs-quota-enforced"] = *k.CPUCFSQuota
	}
	if len(k.ClusterDNS) > 0 {
		out["cluster-dns-ip"] = k.ClusterDNS[0]
	}
}
