package aws

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// graviton is the NodeClass of the article's Graviton pool.
func graviton(change func(*eksv1.NodeClassSpec)) *eksv1.NodeClass {
	n := &eksv1.NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "graviton-nodeclass"}, Spec: eksv1.NodeClassSpec{
		Role: "arn:aws:iam::111122223333:role/eks/automode-node", Tags: map[string]string{"team": "a"},
		SubnetSelectorTerms:        []eksv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "nodeless"}}},
		SecurityGroupSelectorTerms: []eksv1.SecurityGroupSelectorTerm{{Name: "nodes"}},
	}}
	if change != nil {
		change(&n.Spec)
	}
	return n
}

func autoTypes(t *testing.T, n *eksv1.NodeClass) map[string]model.InstanceType {
	t.Helper()
	types, _, err := BuiltIn(FromNodeClass(n), "ap-northeast-2", catalog.Of("ap-northeast-2"), 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]model.InstanceType{}
	for _, it := range types {
		out[it.Name] = it
	}
	return out
}

func TestANodeClassStandsForAnEC2NodeClass(t *testing.T) {
	class := FromNodeClass(graviton(func(s *eksv1.NodeClassSpec) {
		s.EphemeralStorage = &eksv1.EphemeralStorage{IOPS: awssdk.Int64(4000), KMSKeyID: awssdk.String("alias/nodes")}
	}))
	if problems := validate(class); len(problems) > 0 {
		t.Errorf("it is not valid: %v", problems)
	}
	if class.Spec.Role != "automode-node" || class.Spec.Tags["team"] != "a" || class.AMIFamily() != "Bottlerocket" ||
		class.Spec.SecurityGroupSelectorTerms[0].Name != "nodes" ||
		class.Spec.SubnetSelectorTerms[0].Tags["karpenter.sh/discovery"] != "nodeless" {
		t.Errorf("spec %+v", class.Spec)
	}
	data := class.Spec.BlockDeviceMappings[1].EBS
	if diskBytes(class) != 80*gib || *data.IOPS != 4000 || *data.Throughput != 125 || *data.KMSKeyID != "alias/nodes" {
		t.Errorf("data volume %+v", data)
	}
	if got := classLabel(class); got != "eks.amazonaws.com/nodeclass" {
		t.Errorf("nodes name it by %s", got)
	}
	if hash, version := HashKeys(class); hash != "eks.amazonaws.com/nodeclass-hash" ||
		version != "eks.amazonaws.com/nodeclass-hash-version" {
		t.Errorf("hashes in %s, %s", hash, version)
	}
	if ClassHash(class, "") == ClassHash(FromNodeClass(graviton(nil)), "") {
		t.Error("another volume does not change the hash")
	}
	if ClassName(cloud.ClassRef{Kind: "NodeClass", Name: "default"}) ==
		ClassName(cloud.ClassRef{Kind: "EC2NodeClass", Name: "default"}) {
		t.Error("classes of both kinds are kept under one name")
	}
}

// Labels, sizes and pod limits of Auto Mode's nodes.
func TestTheTypesOfAutoMode(t *testing.T) {
	types := autoTypes(t, graviton(nil))
	m6g := types["m6g.large"].Requirements
	for key, want := range map[string]string{
		"eks.amazonaws.com/instance-category": "m", "eks.amazonaws.com/instance-cpu": "2",
		"eks.amazonaws.com/instance-family": "m6g", "eks.amazonaws.com/instance-cpu-manufacturer": "aws",
		"eks.amazonaws.com/compute-type": "auto", "kubernetes.io/arch": "arm64",
	} {
		if r, ok := m6g.Get(key); !ok || !r.Has(want) {
			t.Errorf("%s of m6g.large is %v, want %s", key, r, want)
		}
	}
	for name, it := range types {
		for _, r := range it.Requirements {
			if strings.HasPrefix(r.Key, "karpenter.k8s.aws/instance-") {
				t.Fatalf("%s has the label %s", name, r.Key)
			}
		}
		if it.Capacity[model.Pods] > 110 {
			t.Errorf("%s takes %d pods", name, it.Capacity[model.Pods])
		}
	}
	for _, name := range []string{"t3.small", "t3.micro", "c7g.medium", "a1.large"} {
		if _, there := types[name]; there {
			t.Errorf("%s is offered, which Auto Mode does not launch", name)
		}
	}
	if got := types["c5a.large"].Capacity[model.Pods]; got != 110 {
		t.Errorf("c5a.large takes %d pods, want 110", got)
	}
	byOne := autoTypes(t, graviton(func(s *eksv1.NodeClassSpec) {
		s.AdvancedNetworking = &eksv1.AdvancedNetworking{IPv4PrefixSize: "32"}
	}))
	if got := byOne["c5a.large"].Capacity[model.Pods]; got != 29 {
		t.Errorf("with single addresses c5a.large takes %d pods, want 29", got)
	}
}

// The user data of Auto Mode's instances: the instance ID as node name, the proxy, and certificates.
func TestUserDataOfAutoMode(t *testing.T) {
	class := FromNodeClass(graviton(func(s *eksv1.NodeClassSpec) {
		s.AdvancedNetworking = &eksv1.AdvancedNetworking{HTTPSProxy: "http://192.0.2.4:3128", NoProxy: []string{".internal"}}
		s.CertificateBundles = []eksv1.CertificateBundle{{Name: "corp", Data: []byte("PEM")}}
	}))
	b := bootConfig{
		options: &Options{ClusterName: "c"}, class: class, imageFamily: class.AMIFamily(),
		maxPods: class.Spec.Kubelet.MaxPods,
	}
	text, err := b.userData()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hostname-override-source = 'instance-id'", "max-pods = 110", "https-proxy = 'http://192.0.2.4:3128'",
		"no-proxy = ['.internal']", "[settings.pki.corp]\ndata = 'UEVN'\ntrusted = true",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("user data lack %s:\n%s", want, text)
		}
	}
}
