package aws

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// ourTable finds a table or key of TOML that belongs to the controller.
var ourTable = regexp.MustCompile(`(?m)^\s*\[?\s*settings\.kubernetes\b`)

// bottlerocket is Bottlerocket's settings as TOML (its API's settings.kubernetes), after what the class brings itself.
func (b boot) bottlerocket(custom string) (string, error) {
	if ourTable.MatchString(custom) {
		return "", fmt.Errorf("spec.userData of %s: settings.kubernetes is written by the controller; "+
			"use spec.kubelet, or labels and taints of the NodePool", title(b.class))
	}
	var out strings.Builder
	if custom = strings.TrimSpace(custom); custom != "" {
		out.WriteString(custom + "\n\n")
	}
	fmt.Fprintf(&out, "[settings.kubernetes]\napi-server = %q\ncluster-name = %q\ncluster-certificate = %q\n",
		b.options.ClusterEndpoint,
		b.options.ClusterName, base64.StdEncoding.EncodeToString(b.options.ClusterCA))
	k := b.class.Spec.Kubelet
	switch {
	case k != nil && len(k.ClusterDNS) > 0:
		fmt.Fprintf(&out, "cluster-dns-ip = %q\n", k.ClusterDNS[0])
	case b.options.ClusterDNS != "":
		fmt.Fprintf(&out, "cluster-dns-ip = %q\n", b.options.ClusterDNS)
	}
	if b.maxPods != nil {
		fmt.Fprintf(&out, "max-pods = %d\n", *b.maxPods)
	}
	if k != nil {
		for _, t := range []struct {
			name   string
			values map[string]string
		}{{"kube-reserved", k.KubeReserved}, {"system-reserved", k.SystemReserved}, {"eviction-hard", k.EvictionHard}} {
			writeTable(&out, t.name, t.values)
		}
	}
	writeTable(&out, "node-labels", b.labels)
	fmt.Fprint(&out, "\n[settings.kubernetes.node-taints]\n")
	byKey := map[string][]model.Taint{}
	for _, t := range b.taints {
		byKey[t.Key] = append(byKey[t.Key], t)
	}
	for _, key := range sortedKeys(byKey) {
		var values []string
		for _, t := range byKey[key] {
			values = append(values, fmt.Sprintf("%q", t.Value+":"+string(t.Effect)))
		}
		fmt.Fprintf(&out, "%q = [%s]\n", key, strings.Join(values, ", "))
	}
	return out.String(), nil
}

func writeTable(out *strings.Builder, name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(out, "\n[settings.kubernetes.%s]\n", name)
	for _, k := range sortedKeys(values) {
		fmt.Fprintf(out, "%q = %q\n", k, values[k])
	}
}
