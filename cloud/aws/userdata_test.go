package aws

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

func bootFor(class *ec2v1.EC2NodeClass) bootConfig {
	o := &Options{
		ClusterName: "demo", ClusterEndpoint: "https://cluster", ClusterCA: []byte("CA"),
		ClusterDNS: "10.100.0.10", ServiceCIDR: "10.100.0.0/16",
	}
	labels := map[string]string{"long.example.com/key": strings.Repeat("x", 60), "a": "b", "c": strings.Repeat("y", 60)}
	return bootConfig{
		options: o, class: class, imageFamily: class.AMIFamily(), labels: labels,
		taints: []model.Taint{{Key: "k", Value: "v", Effect: model.NoSchedule}, unregistered},
	}
}

// What nodeadm reads is one NodeConfig; long lists of labels must stay one flag.
func TestNodeConfigIsReadable(t *testing.T) {
	class := newClass("default")
	raid := ec2v1.InstanceStorePolicyRAID0
	class.Spec.InstanceStorePolicy = &raid
	class.Spec.Kubelet = &ec2v1.KubeletConfiguration{
		PodsPerCore:                 awssdk.Int32(10),
		ImageGCHighThresholdPercent: awssdk.Int32(80), ClusterDNS: []string{"10.0.0.9"},
	}
	text, err := bootFor(class).userData()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := splitParts(text)
	if err != nil || len(parts) != 1 || parts[0].contentType != nodeConfigType {
		t.Fatalf("parts %v, %v", parts, err)
	}
	var config struct {
		APIVersion string
		Spec       struct {
			Cluster struct{ Name, APIServerEndpoint, CertificateAuthority, CIDR string }
			Kubelet struct {
				Config map[string]any
				Flags  []string
			}
			Instance struct{ LocalStorage struct{ Strategy string } }
		}
	}
	if err := yaml.Unmarshal([]byte(parts[0].body), &config); err != nil {
		t.Fatal(err)
	}
	s := config.Spec
	if config.APIVersion != "node.eks.aws/v1alpha1" || s.Cluster.CertificateAuthority != "Q0E=" ||
		s.Cluster.CIDR != "10.100.0.0/16" || s.Instance.LocalStorage.Strategy != "RAID0" {
		t.Errorf("config %+v", config)
	}
	if len(s.Kubelet.Flags) != 1 || !strings.HasPrefix(s.Kubelet.Flags[0], "--node-labels=a=b,c=y") ||
		strings.ContainsAny(s.Kubelet.Flags[0], " \n") {
		t.Errorf("flags %q", s.Kubelet.Flags)
	}
	if len(s.Kubelet.Config["registerWithTaints"].([]any)) != 2 || s.Kubelet.Config["podsPerCore"] != 10.0 ||
		s.Kubelet.Config["clusterDNS"].([]any)[0] != "10.0.0.9" {
		t.Errorf("kubelet config %v", s.Kubelet.Config)
	}
	again, _ := bootFor(class).userData()
	if again != text {
		t.Error("equal settings gave different user data")
	}
}

func TestCustomUserDataComesFirst(t *testing.T) {
	mime := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho one\n--X\nContent-Type: application/node.eks.aws\n\nkind: NodeConfig\n--X--\n"
	for _, c := range []struct {
		custom, first string
		parts         int
	}{
		{"#!/bin/sh\necho hello", "text/x-shellscript", 2},
		{"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", nodeConfigType, 2},
		{mime, "text/x-shellscript", 3},
		{"", nodeConfigType, 1},
	} {
		class := newClass("default")
		class.Spec.UserData = &c.custom
		text, err := bootFor(class).userData()
		if err != nil {
			t.Fatal(err)
		}
		parts, err := splitParts(text)
		if err != nil || len(parts) != c.parts || !strings.HasPrefix(parts[0].contentType, c.first) ||
			parts[len(parts)-1].contentType != nodeConfigType {
			t.Errorf("custom %q: parts %v, %v", c.custom, parts, err)
		}
	}
	bad := newClass("default")
	bad.Spec.UserData = awssdk.String("MIME-Version: 1.0\nContent-Type: text/plain\n\nhello")
	if _, err := bootFor(bad).userData(); err == nil || !strings.Contains(err.Error(), "spec.userData") {
		t.Errorf("malformed MIME: %v", err)
	}
}

func TestBottlerocketAndCustomFamilies(t *testing.T) {
	class := newClass("default")
	class.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
	class.Spec.UserData = awssdk.String("[settings.ntp]\ntime-servers = [\"x\"]")
	b := bootFor(class)
	b.maxPods = awssdk.Int32(29)
	text, err := b.userData()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"[settings.ntp]", "[settings.kubernetes]", `cluster-name = "demo"`, "max-pods = 29",
		`"a" = "b"`, `"karpenter.sh/unregistered" = [":NoExecute"]`, `"k" = ["v:NoSchedule"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	class.Spec.UserData = awssdk.String("[settings.kubernetes]\ncluster-name = \"other\"")
	if _, err := bootFor(class).userData(); err == nil {
		t.Error("two tables of one name would be no TOML")
	}
	custom := newClass("default")
	custom.Spec.AMIFamily, custom.Spec.UserData = awssdk.String("Custom"), awssdk.String("as it is")
	if text, _ := bootFor(custom).userData(); text != "as it is" {
		t.Errorf("custom family got %q", text)
	}
}

func TestKubeletRegistersOnlyWithLabelsItMaySet(t *testing.T) {
	for key, want := range map[string]bool{
		"team": true, "example.com/a": true, "node.kubernetes.io/instance-type": true, "kubernetes.io/arch": true,
		"node-role.kubernetes.io/worker": false, "kubernetes.io/other": false, "x.k8s.io/y": false,
		"karpenter.sh/nodepool": true,
	} {
		if kubeletMaySet(key) != want {
			t.Errorf("%s: %v, want %v", key, !want, want)
		}
	}
}
