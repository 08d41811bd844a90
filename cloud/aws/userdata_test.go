package aws

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/pelletier/go-toml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// The user data is a single NodeConfig that nodeadm can read; a long list of labels must stay one flag.
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
		"[settings.ntp]", "[settings.kubernetes]", "cluster-name = 'demo'", "max-pods = 29",
		"a = 'b'", "'karpenter.sh/unregistered' = [':NoExecute']", "k = ['v:NoSchedule']",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	for _, bad := range []string{
		"[settings.kubernetes]\n[settings.kubernetes]\n", "[settings]\nkubernetes = 1\n", "#!/bin/sh\necho hello\n",
		"[settings.kubernetes]\nnode-labels = \"a=b\"\n",
	} {
		class.Spec.UserData = &bad
		if text, err := bootFor(class).userData(); err == nil || !strings.Contains(err.Error(), "spec.userData of") {
			t.Errorf("%q gives %q, %v", bad, text, err)
		}
	}
	custom := newClass("default")
	custom.Spec.AMIFamily, custom.Spec.UserData = awssdk.String("Custom"), awssdk.String("as it is")
	if text, _ := bootFor(custom).userData(); text != "as it is" {
		t.Errorf("custom family got %q", text)
	}
}

// The class's own settings.kubernetes stay, as in Karpenter, except those that the cluster, spec.kubelet or the NodePool
// determine. They may be written in any way that TOML allows.
func TestBottlerocketKeepsTheClassesOwnSettings(t *testing.T) {
	class := newClass("default")
	class.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
	class.Spec.Kubelet = &ec2v1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "100m"}}
	for _, own := range []string{`
[settings]
kubernetes.kube-api-qps = 30 # as in Karpenter's examples
kubernetes.cluster-name = "other"
kubernetes.max-pods = 7
kubernetes.cluster-dns-ip = "10.0.0.9"
kubernetes.node-labels = {own = "1", a = "own"}
kubernetes.node-taints = {own = ["1:NoSchedule"]}
kubernetes.kube-reserved = {memory = "1Gi"}
kubernetes.static-pods.hello = {enabled = true}
`, `
[settings.kubernetes]
kube-api-qps = 30
cluster-name = "other"
max-pods = 7
cluster-dns-ip = "10.0.0.9"
[settings.kubernetes.node-labels]
own = "1"
a = "own"
[settings.kubernetes.node-taints]
own = ["1:NoSchedule"]
[settings.kubernetes.kube-reserved]
memory = "1Gi"
[settings.kubernetes.static-pods.hello]
enabled = true
`} {
		class.Spec.UserData = &own
		text, err := bootFor(class).userData()
		if err != nil {
			t.Fatal(err)
		}
		var have struct {
			Settings struct {
				Kubernetes map[string]any
			}
		}
		if err := toml.Unmarshal([]byte(text), &have); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		long, c := strings.Repeat("x", 60), strings.Repeat("y", 60)
		if want := map[string]any{
			"kube-api-qps": int64(30), "cluster-name": "demo", "max-pods": int64(7), "cluster-dns-ip": "10.0.0.9",
			"node-labels":   map[string]any{"own": "1", "a": "b", "c": c, "long.example.com/key": long},
			"node-taints":   map[string]any{"k": []any{"v:NoSchedule"}, "karpenter.sh/unregistered": []any{":NoExecute"}},
			"kube-reserved": map[string]any{"cpu": "100m"}, "static-pods": map[string]any{"hello": map[string]any{"enabled": true}},
			"api-server": "https://cluster", "cluster-certificate": "Q0E=",
		}; !reflect.DeepEqual(have.Settings.Kubernetes, want) {
			t.Errorf("%s\ngives %v\nwant %v", own, have.Settings.Kubernetes, want)
		}
	}
}

// All fields of spec.kubelet for which Bottlerocket has a setting reach it, in the same order each time: the name of a
// launch template is a hash of its content.
func TestBottlerocketHasTheKubeletsSettings(t *testing.T) {
	class := newClass("default")
	class.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
	class.Spec.Kubelet = &ec2v1.KubeletConfiguration{
		ClusterDNS:   []string{"10.0.0.9"},
		KubeReserved: map[string]string{"cpu": "100m"}, SystemReserved: map[string]string{"memory": "1Gi"},
		EvictionHard: map[string]string{"memory.available": "5%"},
		EvictionSoft: map[string]string{"memory.available": "10%", "nodefs.available": "15%"},
		EvictionSoftGracePeriod: map[string]metav1.Duration{
			"memory.available": {Duration: time.Minute}, "nodefs.available": {Duration: 90 * time.Second},
		},
		EvictionMaxPodGracePeriod:   awssdk.Int32(60),
		ImageGCHighThresholdPercent: awssdk.Int32(80), ImageGCLowThresholdPercent: awssdk.Int32(70),
		CPUCFSQuota: awssdk.Bool(false),
	}
	text, err := bootFor(class).userData()
	if err != nil {
		t.Fatal(err)
	}
	const scalars = `[settings.kubernetes]
api-server = 'https://cluster'
cluster-certificate = 'Q0E='
cluster-dns-ip = '10.0.0.9'
cluster-name = 'demo'
cpu-cfs-quota-enforced = false
eviction-max-pod-grace-period = 60
image-gc-high-threshold-percent = '80'
image-gc-low-threshold-percent = '70'
`
	for _, want := range []string{
		scalars, "[settings.kubernetes.eviction-hard]\n'memory.available' = '5%'\n",
		"[settings.kubernetes.eviction-soft]\n'memory.available' = '10%'\n'nodefs.available' = '15%'\n",
		"[settings.kubernetes.eviction-soft-grace-period]\n'memory.available' = '1m0s'\n'nodefs.available' = '1m30s'\n",
		"[settings.kubernetes.kube-reserved]\ncpu = '100m'\n", "[settings.kubernetes.system-reserved]\nmemory = '1Gi'\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	for range 20 {
		if again, _ := bootFor(class).userData(); again != text {
			t.Fatal("equal settings gave different user data")
		}
	}
}

// Bottlerocket has no policy for local disks: a command at boot mounts them. One of the same name in the class's own
// settings stays, since a table may be given once.
func TestBottlerocketMountsLocalDisks(t *testing.T) {
	class := newClass("default")
	class.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
	class.Spec.InstanceStorePolicy = new(ec2v1.InstanceStorePolicyRAID0)
	for custom, want := range map[string]string{
		"": "init bind",
		"[settings.bootstrap-commands]\nhello = {commands = [[\"echo\", \"to\", \"all\"]]}":                 "init bind all",
		"[settings.bootstrap-commands.000-mount-instance-storage]\ncommands = [[\"my\", \"own\", \"one\"]]": "one",
	} {
		class.Spec.UserData = &custom
		text, err := bootFor(class).userData()
		if err != nil {
			t.Fatal(err)
		}
		var have struct {
			Settings struct {
				Commands map[string]struct{ Commands [][]string } `toml:"bootstrap-commands"`
			}
		}
		if err := toml.Unmarshal([]byte(text), &have); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		var did []string
		for _, name := range slices.Sorted(maps.Keys(have.Settings.Commands)) {
			for _, words := range have.Settings.Commands[name].Commands {
				did = append(did, words[2])
			}
		}
		if strings.Join(did, " ") != want {
			t.Errorf("with %q the commands are %v, want %s", custom, did, want)
		}
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

// The kubelet registers with all taints of the NodePool, so the controller adds none: it would add startup taints again
// that have been removed (github.com/kubernetes-sigs/karpenter/issues/1772). User data of custom images is the user's.
func TestNodesSayThatTheirTaintsAreComplete(t *testing.T) {
	_, p, class := stage(t)
	req := requestFor("c")
	for alias, want := range map[string]string{
		"al2023@latest":       "karpenter.sh/do-not-sync-taints=true",
		"bottlerocket@latest": "'karpenter.sh/do-not-sync-taints' = 'true'",
		"windows2022@latest":  "karpenter.sh/do-not-sync-taints=true",
	} {
		class.Spec.AMISelectorTerms[0].Alias = alias
		if text, err := p.bootConfigOf(class, &req, model.Spot).userData(); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s lacks %s: %v\n%s", alias, want, err, text)
		}
	}
	class.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{ID: "ami-x86"}}
	class.Spec.AMIFamily = awssdk.String(ec2v1.AMIFamilyCustom)
	if _, has := p.bootConfigOf(class, &req, model.Spot).labels["karpenter.sh/do-not-sync-taints"]; has {
		t.Error("custom images have the label")
	}
}
