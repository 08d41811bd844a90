package aws

import (
	"errors"
	"strings"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// launchedWith returns what a claim records about its instance, with the hash that its class had at launch.
func launchedWith(m cloud.Instance, hash, version string) cloud.Launched {
	return cloud.Launched{
		InstanceID: m.ID, Class: classRef, Type: m.Type, ImageID: m.ImageID,
		Annotations: map[string]string{
			ec2v1.AnnotationEC2NodeClassHash: hash, ec2v1.AnnotationEC2NodeClassHashVersion: version,
		},
	}
}

func TestAnInstanceDriftsWhenItsClassAsksForOtherThings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ec2v1.EC2NodeClass)
		want   string
	}{
		"nothing changed": {func(*ec2v1.EC2NodeClass) {}, ""},
		"another disk": {
			func(c *ec2v1.EC2NodeClass) { c.Annotations[ec2v1.AnnotationEC2NodeClassHash] = "2" },
			"NodeClassDrift",
		},
		"another way to hash": {func(c *ec2v1.EC2NodeClass) { hashed(c, "2", "v0") }, ""},
		"no hash yet":         {func(c *ec2v1.EC2NodeClass) { c.Annotations = nil }, ""},
		"a newer image":       {func(c *ec2v1.EC2NodeClass) { renamed(c) }, "AMIDrift"},
		"another group":       {func(c *ec2v1.EC2NodeClass) { c.Status.SecurityGroups[0].ID = "sg-2" }, "SecurityGroupDrift"},
		"one group more": {func(c *ec2v1.EC2NodeClass) {
			c.Status.SecurityGroups = append(c.Status.SecurityGroups, ec2v1.SecurityGroup{ID: "sg-2"})
		}, "SecurityGroupDrift"},
		"its subnet is left": {func(c *ec2v1.EC2NodeClass) { c.Status.Subnets = otherZone(c.Status.Subnets) }, "SubnetDrift"},
		"subnets come to it": {func(c *ec2v1.EC2NodeClass) {
			c.Status.Subnets = append(c.Status.Subnets, ec2v1.Subnet{ID: "subnet-new", Zone: "us-west-2a"})
		}, ""},
		"the hash decides first": {func(c *ec2v1.EC2NodeClass) { hashed(c, "2", "v4"); renamed(c) }, "NodeClassDrift"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p, class := stage(t)
			hashed(class, "1", "v4")
			m := mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelZone, "us-west-2a"))).Instance
			c.change(class)
			got, err := p.Drifted(t.Context(), launchedWith(m, "1", "v4"))
			if err != nil || got != c.want {
				t.Errorf("drifted: %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// aheadClock runs with the machine's clock, but ahead of it.
type aheadClock struct {
	clock.Real
	ahead time.Duration
}

func (c *aheadClock) Now() time.Time { return c.Real.Now().Add(c.ahead) }

// After an upgrade of the control plane, aliases name the images of its new version. The version is read again every
// five minutes; if that fails, the last one counts.
func TestAnUpgradeOfTheClusterIsADrift(t *testing.T) {
	clk := &aheadClock{}
	a, p, class := stage(t, func(o *Options) { o.Clock = clk })
	a.parameters = map[string]string{
		"/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id": "ami-old",
	}
	version, failure := "1.37", error(nil)
	p.FollowVersion(func() (string, error) { return version, failure })
	m := mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large"))).Instance
	for _, step := range []struct {
		after   time.Duration
		failure error
		want    string
	}{
		{0, nil, ""},
		{4 * time.Minute, nil, ""},
		{time.Minute, errors.New("connection refused"), ""},
		{time.Minute, nil, "AMIDrift"},
		{5 * time.Minute, errors.New("connection refused"), "AMIDrift"},
	} {
		clk.ahead += step.after
		failure = step.failure
		resolve(t, p, class)
		if got, err := p.Drifted(t.Context(), launchedWith(m, "", "")); err != nil || got != step.want {
			t.Errorf("after %v more: %q, %v; want %q", step.after, got, err, step.want)
		}
	}
}

func hashed(c *ec2v1.EC2NodeClass, hash, version string) {
	c.Annotations = map[string]string{
		ec2v1.AnnotationEC2NodeClassHash:        hash,
		ec2v1.AnnotationEC2NodeClassHashVersion: version,
	}
}

func renamed(c *ec2v1.EC2NodeClass) {
	for i := range c.Status.AMIs {
		c.Status.AMIs[i].ID += "-newer"
	}
}

func otherZone(subnets []ec2v1.Subnet) (out []ec2v1.Subnet) {
	for _, s := range subnets {
		if s.Zone != "us-west-2a" {
			out = append(out, s)
		}
	}
	return out
}

// calls records the methods that an observer is notified of.
type calls []string

func (c *calls) Call(_, method string, _ time.Duration, err error) {
	if err != nil {
		method += " failed"
	}
	*c = append(*c, method)
}
func (*calls) Batch(string, time.Duration, int) {}
func (*calls) UserData(string, int)             {}

func TestQuestionsAboutDriftAreMeasured(t *testing.T) {
	_, p, _ := stage(t)
	m := mustLaunch(t, p, requestFor("c")).Instance
	var seen calls
	p.Observe(&seen)
	for _, id := range []string{m.ID, "i-unknown"} {
		_, _ = p.Drifted(t.Context(), cloud.Launched{InstanceID: id, Class: classRef, Type: m.Type, ImageID: m.ImageID})
	}
	if got := strings.Join(seen, ", "); got != "Get, Drifted, Get failed, Drifted failed" {
		t.Errorf("told of %s", got)
	}
}

func TestDriftOfWhatCannotBeComparedIsNotGuessed(t *testing.T) {
	_, p, class := stage(t)
	m := mustLaunch(t, p, requestFor("c")).Instance
	if _, err := p.Drifted(t.Context(),
		cloud.Launched{InstanceID: "i-unknown", Class: classRef, Type: m.Type, ImageID: m.ImageID}); !errors.Is(err,
		cloud.ErrNotFound) {
		t.Errorf("an instance that is gone: %v", err)
	}
	class.StatusConditions().SetFalse(ec2v1.ConditionTypeSubnetsReady, "SubnetsNotFound", "none")
	if _, err := p.Drifted(t.Context(), launchedWith(m, "", "")); !errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("a class that is not ready: %v", err)
	}
}

func TestTheOrderOfSecurityGroupsIsNoDrift(t *testing.T) {
	class := newClass("default")
	class.Status.SecurityGroups = []ec2v1.SecurityGroup{{ID: "sg-2"}, {ID: "sg-1"}}
	for _, groups := range [][]string{{"sg-1", "sg-2"}, {"sg-2", "sg-1"}} {
		if got := networkDrift(class, cloud.Instance{SecurityGroups: groups}); got != "" {
			t.Errorf("groups %v: %s", groups, got)
		}
	}
}

func TestAClassThatIsNotResolvedYetIsToldFromOneThatIsBad(t *testing.T) {
	_, p, class := stage(t)
	class.Status.Conditions = nil
	if _, err := p.Launch(t.Context(), requestFor("early")); !errors.Is(err, cloud.ErrClassUnresolved) ||
		!errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("launch of a class without conditions: %v", err)
	}
	class.StatusConditions().SetFalse(ec2v1.ConditionTypeSubnetsReady, "SubnetsNotFound", "none")
	if _, err := p.Launch(t.Context(), requestFor("bad")); errors.Is(err, cloud.ErrClassUnresolved) ||
		!errors.Is(err, cloud.ErrClassNotReady) {
		t.Errorf("launch of a class that is not ready: %v", err)
	}
}

func TestRepairPoliciesCanBeChosen(t *testing.T) {
	_, p, _ := stage(t)
	if got := p.RepairPolicies(); len(got) != 7 ||
		got[0] != (cloud.RepairPolicy{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute}) {
		t.Errorf("policies are %v", got)
	}
	_, p, _ = stage(t, func(o *Options) { o.RepairPolicies = []cloud.RepairPolicy{} })
	if got := p.RepairPolicies(); len(got) != 0 {
		t.Errorf("policies are %v", got)
	}
}
