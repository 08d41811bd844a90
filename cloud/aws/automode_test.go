package aws

import (
	"errors"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
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

// The launch chooses the partition of a group: no type has one.
func TestTypesOfAutoModeHaveNoPartition(t *testing.T) {
	offers := catalog.Of("ap-northeast-2")
	class := assumeResolved(FromNodeClass(graviton(func(*eksv1.NodeClassSpec) {})), offers)
	a := &account{o: Options{AWS: awssdk.Config{Region: "ap-northeast-2"}, VMMemoryOverheadPercent: awssdk.Float64(0)}}
	for _, partitions := range []int32{0, 3} {
		c := a.assemble(class, builtInOffers(offers), nil, placementGroup{partitions: partitions})
		if c.typeKeys[ec2v1.LabelPlacementGroupPartition] != (partitions == 0) {
			t.Errorf("%d partitions: %v", partitions, c.typeKeys)
		}
	}
}

func TestANodeClassStandsForAnEC2NodeClass(t *testing.T) {
	class := FromNodeClass(graviton(func(s *eksv1.NodeClassSpec) {
		s.EphemeralStorage = &eksv1.EphemeralStorage{IOPS: awssdk.Int64(4000), KMSKeyID: awssdk.String("alias/nodes")}
		s.CapacityReservationSelectorTerms = []eksv1.CapacityReservationSelectorTerm{
			{ID: "cr-1"}, {Owner: "444455556666", Tags: map[string]string{"team": "web"}},
		}
		s.PlacementGroupSelector = &eksv1.PlacementGroupSelector{Name: awssdk.String("training")}
	}))
	if problems := validate(class); len(problems) > 0 {
		t.Errorf("it is not valid: %v", problems)
	}
	if class.Spec.Role != "automode-node" || class.Spec.Tags["team"] != "a" || class.AMIFamily() != "Bottlerocket" ||
		class.Spec.SecurityGroupSelectorTerms[0].Name != "nodes" ||
		class.Spec.SubnetSelectorTerms[0].Tags["karpenter.sh/discovery"] != "nodeless" {
		t.Errorf("spec %+v", class.Spec)
	}
	if group := class.Spec.PlacementGroupSelector; group == nil || *group.Name != "training" || group.ID != nil {
		t.Errorf("placement group %+v", group)
	}
	reserved := class.Spec.CapacityReservationSelectorTerms
	if len(reserved) != 2 || reserved[0].ID != "cr-1" || reserved[1].OwnerID != "444455556666" ||
		reserved[1].Tags["team"] != "web" {
		t.Errorf("reservations %+v", reserved)
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
		s.AdvancedSecurity = &eksv1.AdvancedSecurity{KernelLockdown: "Integrity"}
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
		"[settings.kernel]\nlockdown = 'integrity'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("user data lack %s:\n%s", want, text)
		}
	}
}

// Nodes with advancedSecurity.fips boot Bottlerocket's FIPS variant of their Kubernetes version, and another value of
// the field is a drift.
func TestFIPSNodesOfAutoMode(t *testing.T) {
	a, class := newAccount(), FromNodeClass(fipsClass(true))
	const path = "/aws/service/bottlerocket/aws-k8s-1.36"
	a.parameters = map[string]string{
		path + "/x86_64/latest/image_id": "ami-x86", path + "-fips/x86_64/latest/image_id": "ami-old",
		path + "-nvidia-fips/x86_64/latest/image_id": "ami-gpu",
	}
	ref := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: class.Name}
	p := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{class.Name: class})
	resolve(t, p, class)
	images := map[string]bool{}
	for _, i := range class.Status.AMIs {
		images[i.ID] = true
	}
	if len(images) != 2 || !images["ami-old"] || !images["ami-gpu"] {
		t.Errorf("images %v", class.Status.AMIs)
	}
	r := requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large"))
	r.Class = ref
	launched := launchedWith(mustLaunch(t, p, r).Instance, "", "")
	launched.Class = ref
	for _, fips := range []bool{true, false} {
		next := FromNodeClass(fipsClass(fips))
		resolve(t, p, next)
		*class = *next
		want := map[bool]string{true: "", false: "AMIDrift"}[fips]
		if got, err := p.Drifted(t.Context(), launched); err != nil || got != want {
			t.Errorf("fips %v: drift %q, %v; want %q", fips, got, err, want)
		}
	}
}

// fipsClass is a NodeClass of the account that newAccount returns.
func fipsClass(fips bool) *eksv1.NodeClass {
	return graviton(func(s *eksv1.NodeClassSpec) {
		s.Role, s.AdvancedSecurity = "node-role", &eksv1.AdvancedSecurity{FIPS: fips}
		s.SubnetSelectorTerms[0].Tags = newClass("").Spec.SubnetSelectorTerms[0].Tags
		s.SecurityGroupSelectorTerms = []eksv1.SecurityGroupSelectorTerm{{Tags: s.SubnetSelectorTerms[0].Tags}}
	})
}

// EKS has FIPS images in some regions only, and Karpenter's classes cannot name them by an alias.
func TestWhereThereAreNoFIPSImages(t *testing.T) {
	for region, has := range map[string]bool{
		"us-east-2": true, "us-gov-west-1": true, "ca-west-1": true, "us-iso-east-1": false, "ap-northeast-2": false,
	} {
		if hasFIPS(region) != has {
			t.Errorf("FIPS images in %s: %v", region, !has)
		}
	}
	config := newAccount().config()
	config.Region = "ap-northeast-2"
	class := FromNodeClass(fipsClass(true))
	if err := connect(t, config, nil).Resolve(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	got := class.StatusConditions().Get(ec2v1.ConditionTypeAMIsReady)
	if !got.IsFalse() || got.Reason != "FIPSNotAvailable" || !strings.Contains(got.Message, "not in ap-northeast-2") {
		t.Errorf("condition %+v", got)
	}
	own := newClass("default")
	own.Spec.AMISelectorTerms[0].Alias = fipsAlias
	if problems := validate(own); len(problems) == 0 {
		t.Error("an EC2NodeClass may name the FIPS variant by an alias")
	}
}

// isolated is a NodeClass of the account that newAccount returns whose pods have another network than their nodes.
func isolated(subnets map[string]string, group string) *eksv1.NodeClass {
	n := fipsClass(false)
	n.Spec.PodSubnetSelectorTerms = []eksv1.SubnetSelectorTerm{{Tags: subnets}}
	n.Spec.PodSecurityGroupSelectorTerms = []eksv1.PodSecurityGroupSelectorTerm{{ID: group}}
	return n
}

// A node whose pods have subnets of their own has one interface less for them. Another pod network is a drift, and one
// that does not exist makes the class unready.
func TestThePodNetworkOfAutoMode(t *testing.T) {
	tags := newClass("").Spec.SubnetSelectorTerms[0].Tags
	same := fipsClass(false)
	n := isolated(tags, "sg-1")
	n.Annotations = map[string]string{podNetworkKey: "{}"}
	class := FromNodeClass(n)
	if hash := ClassHash(class, ""); hash == ClassHash(FromNodeClass(same), "") ||
		hash == ClassHash(FromNodeClass(isolated(tags, "sg-2")), "") || hash != ClassHash(FromNodeClass(n), "") {
		t.Error("the hash does not tell pod networks apart")
	}
	same.Annotations = map[string]string{podNetworkKey: class.Annotations[podNetworkKey]}
	if podNetworkOf(FromNodeClass(same)) != nil {
		t.Error("an annotation of a NodeClass determines its pod network")
	}
	open := n.DeepCopy()
	open.Spec.PodSubnetSelectorTerms, open.Spec.PodSecurityGroupSelectorTerms = nil, nil
	if fingerprint(FromNodeClass(open), nil) == fingerprint(class, nil) {
		t.Error("the catalogue stays when the pods' network changes")
	}
	for size, want := range map[string]map[string]int64{
		"Auto": {"c5a.large": 110, "m4.large": 11}, "32": {"c5a.large": 20, "m4.large": 11},
	} {
		n.Spec.AdvancedNetworking = &eksv1.AdvancedNetworking{IPv4PrefixSize: size}
		types := autoTypes(t, n)
		for name, pods := range want {
			if got := types[name].Capacity[model.Pods]; got != pods {
				t.Errorf("%s with %s takes %d pods, want %d", name, size, got, pods)
			}
		}
	}

	a := newAccount()
	a.parameters = map[string]string{"/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id": "ami-x86"}
	p := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{class.Name: class})
	ref := cloud.ClassRef{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind, Name: class.Name}
	if _, err := p.PodNetwork(t.Context(), ref); !errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("of a class that is not resolved: %v", err)
	}
	resolve(t, p, class)
	if got, err := p.PodNetwork(t.Context(), ref); err != nil || !got.Custom || got.Single || len(got.Subnets) != 4 ||
		got.Subnets[0].ID != "subnet-a1" || got.Subnets[0].Free == 0 {
		t.Errorf("pod network %+v, %v", got, err)
	}
	for condition, n := range map[string]*eksv1.NodeClass{
		ec2v1.ConditionTypeSubnetsReady:        isolated(map[string]string{"no": "where"}, "sg-1"),
		ec2v1.ConditionTypeSecurityGroupsReady: isolated(tags, "sg-missing"),
	} {
		class := FromNodeClass(n)
		if err := p.Resolve(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if got := class.StatusConditions().Get(condition); !got.IsFalse() || !strings.Contains(got.Message, "spec.podS") {
			t.Errorf("condition %+v", got)
		}
	}
}
