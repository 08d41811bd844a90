package aws

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

// powerShell returns the script that joins a Windows instance to the cluster: the class's own script and then a call
// of Start-EKSBootstrap.ps1 (Amazon EKS user guide, "Create nodes with optimized Windows AMIs", bootstrap script
// configuration parameters).
func (b bootConfig) powerShell(custom string) (string, error) {
	if strings.Contains(strings.ToLower(custom), "powershell>") {
		return "", fmt.Errorf("spec.userData of %s: write the script without <powershell>; the controller adds that and "+
			"calls Start-EKSBootstrap.ps1 after it", title(b.class))
	}
	var out strings.Builder
	fmt.Fprintln(&out, "<powershell>")
	if custom = strings.TrimSpace(custom); custom != "" {
		fmt.Fprintln(&out, custom)
	}
	fmt.Fprint(&out, `& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"`)
	dns := b.options.ClusterDNS
	if k := b.class.Spec.Kubelet; k != nil && len(k.ClusterDNS) > 0 {
		dns = k.ClusterDNS[0]
	}
	for _, p := range [][2]string{
		{"EKSClusterName", b.options.ClusterName},
		{"APIServerEndpoint", b.options.ClusterEndpoint},
		{"Base64ClusterCA", base64.StdEncoding.EncodeToString(b.options.ClusterCA)},
		{"DNSClusterIP", dns},
		{"ServiceCIDR", b.options.ServiceCIDR},
		{"KubeletExtraArgs", b.kubeletArgs()},
	} {
		if p[1] != "" {
			fmt.Fprintf(&out, " -%s '%s'", p[0], strings.ReplaceAll(p[1], "'", "''"))
		}
	}
	fmt.Fprint(&out, "\n</powershell>\n")
	return out.String(), nil
}

// kubeletArgs returns the settings of the class and the pool as flags of the kubelet
// (kubernetes.io/docs/reference/command-line-tools-reference/kubelet).
func (b bootConfig) kubeletArgs() string {
	var out []string
	flag := func(name, value string) {
		if value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	list := func(name string, items []string) {
		if len(items) > 0 {
			flag(name, `"`+strings.Join(items, ",")+`"`)
		}
	}
	list("node-labels", pairs(b.labels, "="))
	var taints []string
	for _, t := range b.taints {
		value := ""
		if t.Value != "" {
			value = "=" + t.Value
		}
		taints = append(taints, t.Key+value+":"+string(t.Effect))
	}
	list("register-with-taints", taints)
	flag("max-pods", number(b.maxPods))
	k := b.class.Spec.Kubelet
	if k == nil {
		k = &ec2v1.KubeletConfiguration{}
	}
	flag("pods-per-core", number(k.PodsPerCore))
	list("system-reserved", pairs(k.SystemReserved, "="))
	list("kube-reserved", pairs(k.KubeReserved, "="))
	list("eviction-hard", pairs(k.EvictionHard, "<"))
	list("eviction-soft", pairs(k.EvictionSoft, "<"))
	grace := map[string]string{}
	for signal, d := range k.EvictionSoftGracePeriod {
		grace[signal] = d.Duration.String()
	}
	list("eviction-soft-grace-period", pairs(grace, "="))
	flag("eviction-max-pod-grace-period", number(k.EvictionMaxPodGracePeriod))
	flag("image-gc-high-threshold", number(k.ImageGCHighThresholdPercent))
	flag("image-gc-low-threshold", number(k.ImageGCLowThresholdPercent))
	if k.CPUCFSQuota != nil {
		flag("cpu-cfs-quota", strconv.FormatBool(*k.CPUCFSQuota))
	}
	return strings.Join(out, " ")
}

// number returns a number as text; "" if it is not set.
func number(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}

// pairs returns keys and values joined by sign, sorted by key.
func pairs(of map[string]string, sign string) (out []string) {
	for _, k := range sortedKeys(of) {
		out = append(out, k+sign+of[k])
	}
	return out
}
