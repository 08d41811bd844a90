package aws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/netip"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// unregistered keeps pods off until the controller has completed the Node
// (sigs.k8s.io/karpenter/pkg/apis/v1/taints.go).
var unregistered = model.Taint{Key: "karpenter.sh/unregistered", Effect: model.NoExecute}

// bootConfig is what an instance needs to join the cluster as the right Node.
type bootConfig struct {
	options     *Options
	class       *ec2v1.EC2NodeClass
	labels      map[string]string
	taints      []model.Taint
	maxPods     *int32 // nil = the image calculates it
	imageFamily string
}

// bootConfigOf collects the boot configuration for a request and a capacity type. It leaves labels that the kubelet may
// not set to the controller, which adds them once the Node exists.
func (a *account) bootConfigOf(class *ec2v1.EC2NodeClass, req *cloud.LaunchRequest, capacityType string) bootConfig {
	o := a.o
	o.ServiceCIDR = a.serviceCIDR()
	b := bootConfig{options: &o, class: class, imageFamily: class.AMIFamily(), labels: map[string]string{}}
	for k, v := range req.Labels {
		if kubeletMaySet(k) {
			b.labels[k] = v
		}
	}
	b.labels[model.LabelCapacityType] = capacityType
	b.labels[classLabel(class)] = class.Name
	if req.Pool != "" {
		b.labels[model.LabelPool] = req.Pool
	}
	if b.imageFamily != ec2v1.AMIFamilyCustom {
		// The kubelet registers with all taints. The controller must not add startup taints again that have been removed
		// since (github.com/kubernetes-sigs/karpenter/issues/1772).
		b.labels[karpv1.NodeDoNotSyncTaintsLabelKey] = "true"
	}
	b.taints = append(slices.Concat(req.Taints, req.StartupTaints), unregistered)
	if class.Spec.Kubelet != nil {
		b.maxPods = class.Spec.Kubelet.MaxPods
	}
	return b
}

// kubeletMaySet reports whether a kubelet may register with a label (NodeRestriction admission plug-in).
func kubeletMaySet(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok || (domain != "kubernetes.io" && domain != "k8s.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasSuffix(domain, ".k8s.io")) {
		return true
	}
	switch key {
	case model.LabelHostname, model.LabelInstanceType, model.LabelOS, model.LabelArch, model.LabelZone, model.LabelRegion,
		"beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region":
		return true
	}
	for _, d := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

// ipv6 reports whether the cluster's Services have IPv6 addresses. On EKS its pods and nodes then have them, too (EKS
// user guide, "IPv6 addresses to clusters, pods, and services").
func (b bootConfig) ipv6() bool {
	services, err := netip.ParsePrefix(b.options.ServiceCIDR)
	dns, _ := netip.ParseAddr(b.options.ClusterDNS) // the range is not known where no class needed it
	return err == nil && services.Addr().Is6() || dns.Is6()
}

// userData returns the user data with which an instance boots, by image family.
func (b bootConfig) userData() (string, error) {
	custom := ""
	if b.class.Spec.UserData != nil {
		custom = *b.class.Spec.UserData
	}
	switch b.imageFamily {
	case ec2v1.AMIFamilyCustom:
		return custom, nil
	case ec2v1.AMIFamilyBottlerocket:
		return b.bottlerocket(custom)
	}
	if windowsYear(b.imageFamily) != "" {
		return b.powerShell(custom)
	}
	parts, err := customParts(custom)
	if err != nil {
		return "", fmt.Errorf("spec.userData of %s: %w", title(b.class), err)
	}
	config, err := b.nodeConfig()
	if err != nil {
		return "", err
	}
	// Later NodeConfigs override earlier ones: the cluster's comes last.
	return archive(append(parts, part{nodeConfigType, config})), nil
}

// nodeConfig returns the NodeConfig of nodeadm (node.eks.aws/v1alpha1), as YAML.
func (b bootConfig) nodeConfig() (string, error) {
	config, err := b.kubeletConfig()
	if err != nil {
		return "", err
	}
	spec := map[string]any{
		"cluster": map[string]any{
			"name":                 b.options.ClusterName,
			"apiServerEndpoint":    b.options.ClusterEndpoint,
			"certificateAuthority": base64.StdEncoding.EncodeToString(b.options.ClusterCA),
			"cidr":                 b.options.ServiceCIDR,
		},
		"kubelet": map[string]any{
			"config": config, "flags": []string{"--node-labels=" + strings.Join(pairs(b.labels, "="), ",")},
		},
	}
	if b.isRAID0() {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
	if err != nil {
		return "", fmt.Errorf("render NodeConfig for %s: %w", title(b.class), err)
	}
	return string(text), nil
}

// isRAID0 reports whether the class puts node storage on the local NVMe disks.
func (b bootConfig) isRAID0() bool {
	s := b.class.Spec.InstanceStorePolicy
	return s != nil && *s == ec2v1.InstanceStorePolicyRAID0
}

// kubeletConfig returns the kubelet settings of the class, whose field names are those of KubeletConfiguration, and
// those that the cluster adds.
func (b bootConfig) kubeletConfig() (map[string]any, error) {
	config := map[string]any{}
	if k := b.class.Spec.Kubelet; k != nil {
		text, err := json.Marshal(k)
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			return nil, fmt.Errorf("render spec.kubelet of %s: %w", title(b.class), err)
		}
	}
	var taints []map[string]any
	for _, t := range b.taints {
		taint := map[string]any{"key": t.Key, "effect": string(t.Effect)}
		if t.Value != "" {
			taint["value"] = t.Value
		}
		taints = append(taints, taint)
	}
	config["registerWithTaints"] = taints
	if b.maxPods != nil {
		config["maxPods"] = *b.maxPods
	}
	if _, ok := config["clusterDNS"]; !ok && b.options.ClusterDNS != "" {
		config["clusterDNS"] = []string{b.options.ClusterDNS}
	}
	return config, nil
}

const nodeConfigType = "application/node.eks.aws"

// part is one part of a MIME multipart document.
type part struct{ contentType, body string }

// archive writes a multipart document. The boundary is fixed, so that equal content gives equal text.
func archive(parts []part) string {
	const boundary = "//"
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&out, "--%s\nContent-Type: %s\n\n%s\n", boundary, p.contentType, strings.TrimSuffix(p.body, "\n"))
	}
	fmt.Fprintf(&out, "--%s--\n", boundary)
	return out.String()
}

// customParts splits a class's user data: a multipart document, a NodeConfig, or a script.
func customParts(text string) ([]part, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return nil, nil
	case strings.HasPrefix(trimmed, "MIME-Version:") || strings.HasPrefix(trimmed, "Content-Type:"):
		return splitParts(trimmed)
	case isNodeConfig(trimmed):
		return []part{{nodeConfigType, text}}, nil
	}
	return []part{{`text/x-shellscript; charset="us-ascii"`, text}}, nil
}

func isNodeConfig(text string) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	return yaml.Unmarshal([]byte(text), &head) == nil && strings.HasPrefix(head.APIVersion, "node.eks.aws/")
}

func splitParts(text string) ([]part, error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("not a MIME document: %w", err)
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return nil, fmt.Errorf("MIME header needs Content-Type: multipart/mixed with a boundary, has %q",
			message.Header.Get("Content-Type"))
	}
	var out []part
	reader := multipart.NewReader(message.Body, params["boundary"])
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read MIME part %d: %w", len(out)+1, err)
		}
		var body bytes.Buffer
		if _, err := io.Copy(&body, p); err != nil {
			return nil, fmt.Errorf("read MIME part %d: %w", len(out)+1, err)
		}
		kind := p.Header.Get("Content-Type")
		if e := p.Header.Get("Content-Transfer-Encoding"); e != "" {
			kind += "\nContent-Transfer-Encoding: " + e
		}
		out = append(out, part{kind, body.String()})
	}
}
