package aws

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func TestResolveFillsTheStatus(t *testing.T) {
	a, p, class := stage(t)
	var subnets, images []string
	for _, s := range class.Status.Subnets {
		subnets = append(subnets, s.Zone+"/"+s.ID+"/"+s.ZoneID)
	}
	for _, i := range class.Status.AMIs {
		images = append(images, i.ID)
	}
	slices.Sort(images)
	if !slices.Equal(subnets,
		[]string{
			"us-west-2a/subnet-a1/usw2-az1", "us-west-2a/subnet-a2/usw2-az1", "us-west-2b/subnet-b1/usw2-az2",
			"us-west-2c/subnet-c1/usw2-az3",
		}) {
		t.Errorf("subnets %v", subnets)
	}
	if !slices.Equal(images, []string{"ami-arm", "ami-gpu", "ami-x86"}) || len(class.Status.SecurityGroups) != 1 {
		t.Errorf("images %v, groups %v", images, class.Status.SecurityGroups)
	}
	if a.profiles[class.Status.InstanceProfile] == nil || !strings.HasPrefix(class.Status.InstanceProfile, "demo_") {
		t.Errorf("profile %q does not exist", class.Status.InstanceProfile)
	}
	before := class.DeepCopy()
	resolve(t, p, class)
	if before.Status.InstanceProfile != class.Status.InstanceProfile || a.count("CreateInstanceProfile") != 1 {
		t.Error("resolving again changed something")
	}
}

// A fault that the user has to fix becomes a condition that names the field and the remedy.
func TestResolveSaysWhatToMend(t *testing.T) {
	for _, c := range []struct {
		name, condition string
		spoil           func(*ec2v1.EC2NodeClass)
		say             []string
	}{
		{"selector that finds nothing", "SubnetsReady", func(c *ec2v1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: map[string]string{"no": "where"}}}
		}, []string{"spec.subnetSelectorTerms", "us-west-2"}},
		{"security group that is not there", "SecurityGroupsReady", func(c *ec2v1.EC2NodeClass) {
			c.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Name: "nobody"}}
		}, []string{"spec.securityGroupSelectorTerms"}},
		{
			"unknown alias family", "AMIsReady",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "ubuntu@latest" },
			[]string{"spec.amiSelectorTerms[0]", "ubuntu", "al2023"},
		},
		{
			"Amazon Linux 2 by alias", "AMIsReady",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" },
			[]string{"Kubernetes 1.33", "write alias: al2023@latest"},
		},
		{
			"Amazon Linux 2 by family", "ValidationSucceeded",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMIFamily = awssdk.String("AL2") },
			[]string{"spec.amiFamily", "write amiFamily: AL2023"},
		},
		{
			"malformed alias", "AMIsReady", func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2023" },
			[]string{"family@version"},
		},
		{
			"version of Windows", "AMIsReady",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "windows2022@v1" },
			[]string{"spec.amiSelectorTerms[0]", "only specify version 'latest'", "write alias: windows2022@latest"},
		},
		{
			"Windows that is not there", "AMIsReady",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "windows2016@latest" },
			[]string{`unknown family "windows2016"`, "windows2019, windows2022 or windows2025"},
		},
		{
			"unknown alias version", "AMIsReady",
			func(c *ec2v1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2023@v19990101" },
			[]string{"v19990101", "1.36"},
		},
		{
			"role that is not there", "InstanceProfileReady", func(c *ec2v1.EC2NodeClass) { c.Spec.Role = "ghost" },
			[]string{"spec.role", "ghost"},
		},
		{"no role", "InstanceProfileReady", func(c *ec2v1.EC2NodeClass) { c.Spec.Role = "" }, []string{"spec.role"}},
		{"bad kubelet amount", "ValidationSucceeded", func(c *ec2v1.EC2NodeClass) {
			c.Spec.Kubelet = &ec2v1.KubeletConfiguration{
				KubeReserved: map[string]string{"cpu": "lots"},
				EvictionHard: map[string]string{"memory.available": "120%"},
			}
		}, []string{"spec.kubelet.kubeReserved[cpu]", "spec.kubelet.evictionHard[memory.available]"}},
		{
			"restricted tag", "ValidationSucceeded",
			func(c *ec2v1.EC2NodeClass) { c.Spec.Tags = map[string]string{"karpenter.sh/nodeclaim": "x"} },
			[]string{"spec.tags[karpenter.sh/nodeclaim]"},
		},
		{"key that is none", "ValidationSucceeded", func(c *ec2v1.EC2NodeClass) {
			c.Spec.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{{
				DeviceName: awssdk.String("/dev/xvda"),
				EBS:        &ec2v1.BlockDevice{VolumeSize: new(resource.MustParse("20Gi")), KMSKeyID: awssdk.String("my-key")},
			}}
		}, []string{"spec.blockDeviceMappings[0].ebs.kmsKeyID", "my-key", "alias/aws/ebs"}},
		{"script for Bottlerocket", "ValidationSucceeded", func(c *ec2v1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
			c.Spec.UserData = awssdk.String("[settings]\necho hello\n")
		}, []string{"spec.userData", "TOML", "line 2"}},
		{"script with its frame for Windows", "ValidationSucceeded", func(c *ec2v1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "windows2022@latest"
			c.Spec.UserData = awssdk.String("<powershell>\necho hello\n</powershell>")
		}, []string{"spec.userData", "write the script without <powershell>"}},
		{"MIME without boundary", "ValidationSucceeded", func(c *ec2v1.EC2NodeClass) {
			c.Spec.UserData = awssdk.String("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nhello")
		}, []string{"spec.userData", "boundary"}},
		{"placement group", "PlacementGroupReady", func(c *ec2v1.EC2NodeClass) {
			c.Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{Name: awssdk.String("x")}
		}, []string{"spec.placementGroupSelector"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			class := newClass("default")
			c.spoil(class)
			p := connect(t, newAccount().config(), nil)
			if err := p.Resolve(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			got := class.StatusConditions().Get(c.condition)
			if !got.IsFalse() || got.Reason == "" || class.StatusConditions().Root().IsTrue() {
				t.Fatalf("condition %+v", got)
			}
			for _, s := range c.say {
				if !strings.Contains(got.Message, s) {
					t.Errorf("message %q does not say %q", got.Message, s)
				}
			}
			p.ClassHash(class)
		})
	}
}

func TestResolveTellsPassingTroubleFromMissingRights(t *testing.T) {
	a, class := newAccount(), newClass("default")
	p := connect(t, a.config(), nil)
	a.fail["DescribeSubnets"] = []error{apiError("RequestLimitExceeded", "slow down")}
	a.fail["DescribeSecurityGroups"] = []error{apiError("UnauthorizedOperation", "no")}
	err := p.Resolve(t.Context(), class)
	if !errors.Is(err, cloud.ErrThrottled) || !class.StatusConditions().Get("SubnetsReady").IsUnknown() {
		t.Errorf("throttled: %v, %+v", err, class.StatusConditions().Get("SubnetsReady"))
	}
	if got := class.StatusConditions().Get("SecurityGroupsReady"); !got.IsFalse() ||
		!strings.Contains(got.Message, "ec2:DescribeSecurityGroups") {
		t.Errorf("unauthorized: %+v", got)
	}
}

// User data that cannot be rendered refuse the launch until the class is changed: other pools are tried.
func TestALaunchWithBadUserDataIsRefused(t *testing.T) {
	_, p, class := stage(t)
	class.Spec.UserData = awssdk.String("MIME-Version: 1.0\nContent-Type: text/plain\n\nhello")
	boot := bootConfig{options: &p.o, class: class, imageFamily: class.AMIFamily()}
	if _, err := p.templates.of(class, boot, templateKey{}); !errors.Is(err, cloud.ErrRefused) ||
		!strings.Contains(err.Error(), "spec.userData") {
		t.Errorf("launch template: %v", err)
	}
}

func TestFinalizeLeavesNothingBehind(t *testing.T) {
	a, p, class := stage(t)
	mustLaunch(t, p, requestFor("c"))
	for range 2 {
		if err := p.Finalize(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.profiles)+len(a.templates) != 0 {
		t.Errorf("left: %v %v", a.profiles, a.templates)
	}
}

// Each image needs other launch templates, and EC2 allows few: one that no launch has used for an hour is deleted. One
// in use and another process's new one are kept.
func TestUnusedTemplatesAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clock.NewVirtual(time.Unix(1000000, 0))
		a, p, class := stage(t, func(o *Options) { o.Clock = clk })
		launch := func(claim string) {
			mustLaunch(t, p, requestFor(claim, model.OneOf(model.LabelInstanceType, "m5.large")))
			synctest.Wait() // for the deletion
		}
		launch("first")
		old := slices.Collect(maps.Keys(a.templates))
		clk.Advance(2 * time.Hour)
		launch("second")
		if made := a.count("CreateLaunchTemplate"); made != 1 || len(a.templates) != 1 {
			t.Errorf("%d templates were made, %d are left, want one that is in use", made, len(a.templates))
		}
		for i := range class.Status.AMIs {
			class.Status.AMIs[i].ID += "-new"
		}
		clk.Advance(2 * time.Hour)
		a.templates["karpenter.k8s.aws/younger"] = &ec2types.RequestLaunchTemplateData{}
		a.created["karpenter.k8s.aws/younger"] = clk.Now()
		launch("third")
		if len(a.templates) != 2 || a.templates[old[0]] != nil {
			t.Errorf("left are %v, want the new image's and another process's", slices.Collect(maps.Keys(a.templates)))
		}
	})
}

func TestRoleCanChange(t *testing.T) {
	a, p, class := stage(t)
	a.roles["other"] = true
	class.Spec.Role = "other"
	resolve(t, p, class)
	if roles := a.profiles[class.Status.InstanceProfile].Roles; len(roles) != 1 || *roles[0].RoleName != "other" {
		t.Errorf("roles %v", roles)
	}
}

// A role that cannot be used takes nothing from the nodes that run: their profile keeps its role, and its name. The
// earlier role counts again at once, even if it could not be put back.
func TestAWrongRoleLeavesRunningNodesTheirs(t *testing.T) {
	a, _, class := stage(t)
	denied := apiError("AccessDenied", "no iam:PassRole")
	for _, name := range []string{class.Status.InstanceProfile, "demo_4711"} { // Karpenter's are random
		profile := a.profiles[class.Status.InstanceProfile]
		clear(a.profiles)
		a.profiles[name], class.Status.InstanceProfile = profile, name
		p := connect(t, a.config(), nil)
		for _, step := range []struct {
			role string
			fail []error
			want string
		}{
			{"node-role", nil, "node-role"},
			{"typo", nil, "node-role"},
			{"node-role", nil, "node-role"},
			{"other", []error{denied}, "node-role"},
			{"other", []error{denied, denied}, ""},
			{"node-role", nil, "node-role"},
		} {
			class.Spec.Role, a.fail["AddRoleToInstanceProfile"] = step.role, step.fail
			if err := p.Resolve(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			roles := ""
			for _, r := range profile.Roles {
				roles += *r.RoleName
			}
			good := class.StatusConditions().Get("InstanceProfileReady").IsTrue()
			if roles != step.want || good != (step.role == "node-role") || class.Status.InstanceProfile != name {
				t.Errorf("%s with role %s, %d failures: ready %v, roles %q, profile %q", name, step.role, len(step.fail), good,
					roles, class.Status.InstanceProfile)
			}
		}
	}
}

// A class that Karpenter managed keeps its instance profile, which has a random name; a profile that the user
// specified before is not modified.
func TestAProfileThatKarpenterMadeIsKept(t *testing.T) {
	for owner, theirs := range map[string]bool{"karpenter": true, "user": false} {
		a, p, class := stage(t)
		profile := &iamtypes.InstanceProfile{InstanceProfileName: awssdk.String("demo_4711")}
		if theirs {
			profile.Tags = a.profiles[class.Status.InstanceProfile].Tags
		}
		clear(a.profiles)
		a.profiles["demo_4711"] = profile
		class.Status.InstanceProfile, class.Spec.Role = "demo_4711", "other"
		a.roles["other"] = true
		resolve(t, p, class)
		if kept := class.Status.InstanceProfile == "demo_4711"; kept != theirs {
			t.Errorf("%s: the profile is %s", owner, class.Status.InstanceProfile)
		}
		if roles := a.profiles[class.Status.InstanceProfile].Roles; len(roles) != 1 || *roles[0].RoleName != "other" {
			t.Errorf("%s: roles %v", owner, roles)
		}
		if err := p.Finalize(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if _, left := a.profiles["demo_4711"]; left == theirs || len(a.profiles) > 1 {
			t.Errorf("%s: left are %v", owner, a.profiles)
		}
	}
}

// Tags select images that other accounts share with this one: only the account itself can have tagged them for itself.
// By name, images of others are found only if their owner is named: anyone can share an image of any name.
func TestWhoseImagesTermsSelect(t *testing.T) {
	tags, name := map[string]string{"karpenter.sh/discovery": "demo"}, "image ami-shared"
	for want, terms := range map[string][]ec2v1.AMISelectorTerm{
		"ami-shared": {{Tags: tags}, {Tags: tags, Owner: "210987654321"}, {Name: name, Owner: "210987654321"}},
		"":           {{Name: name}, {Name: name, Tags: tags}, {Tags: tags, Owner: "self"}},
	} {
		for _, term := range terms {
			_, p, class := stage(t)
			class.Spec.AMISelectorTerms, class.Spec.AMIFamily = []ec2v1.AMISelectorTerm{term}, awssdk.String("AL2023")
			if err := p.Resolve(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, i := range class.Status.AMIs {
				got += i.ID
			}
			if got != want {
				t.Errorf("%+v selects %q, want %q", term, got, want)
			}
		}
	}
}

// IAM wants the name of a role, not its path, which spec.role may have. What IAM refuses for good is a condition with
// IAM's words; the rest is tried again.
func TestRolesWithAPathAndRolesThatIAMRefuses(t *testing.T) {
	a, p, class := stage(t)
	a.roles["other"] = true
	for _, role := range []string{"/team/other", "team/a/node-role", "arn:aws:iam::123456789012:role/team/other"} {
		class.Spec.Role = role
		resolve(t, p, class)
		roles := a.profiles[class.Status.InstanceProfile].Roles
		if len(roles) != 1 || !strings.HasSuffix(role, *roles[0].RoleName) {
			t.Errorf("%s: roles %v", role, roles)
		}
	}
	for code, operation := range map[string]string{
		"ValidationError": "AddRoleToInstanceProfile", "LimitExceeded": "CreateInstanceProfile",
	} {
		clear(a.profiles)
		class.Spec.Role, a.fail[operation] = "node-role", []error{apiError(code, "because of IAM")}
		p = connect(t, a.config(), nil)
		if err := p.Resolve(t.Context(), class); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		if c := class.StatusConditions().Get("InstanceProfileReady"); !c.IsFalse() || c.Reason != code ||
			!strings.Contains(c.Message, "because of IAM") || !strings.Contains(c.Message, "spec.role") {
			t.Errorf("%s: condition %+v", code, c)
		}
		resolve(t, p, class)
	}
	clear(a.profiles)
	a.fail["CreateInstanceProfile"] = []error{apiError("ServiceFailure", "try again")}
	if err := connect(t, a.config(), nil).Resolve(t.Context(), class); err == nil {
		t.Error("a passing failure is no error")
	}
}

func TestHashFollowsWhatInstancesAreMadeOf(t *testing.T) {
	a, b := newClass("a"), newClass("a")
	b.Spec.SubnetSelectorTerms = nil
	if ClassHash(a, "") != ClassHash(b, "") || ClassHash(a, "") == "" {
		t.Error("a selector changed the hash")
	}
	size := resource.MustParse("50Gi")
	b.Spec.BlockDeviceMappings = []*ec2v1.BlockDeviceMapping{{
		DeviceName: awssdk.String("/dev/xvda"),
		EBS:        &ec2v1.BlockDevice{VolumeSize: &size},
	}}
	if ClassHash(a, "") == ClassHash(b, "") {
		t.Error("another disk did not change the hash")
	}
}

// Karpenter's hash also covers the cluster's CA certificates, in base64 as in its setting CLUSTER_CA_BUNDLE: nodes of
// either controller have not drifted for the other.
func TestHashIsKarpenters(t *testing.T) {
	class := newClass("a")
	of := func(ca string) string {
		p := connect(t, newAccount().config(), nil, func(o *Options) { o.ClusterCA = []byte(ca) })
		return p.ClassHash(class)
	}
	if got, want := of("certificates"), class.Hash(awssdk.String("Y2VydGlmaWNhdGVz")); got != want {
		t.Errorf("hash %s, want Karpenter's %s", got, want)
	}
	if of("certificates") == of("others") {
		t.Error("other certificates did not change the hash")
	}
}
