package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// office is a region whose account has an administrator and a role for the controller with the policy under test. No
// one else may call it.
type office struct {
	*place
	role awssdk.CredentialsProvider
}

const trustsTheAccount = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",
	"Principal": {"AWS": "arn:aws:iam::123456789012:root"}}]}`

var demo = iampolicy.Scope{
	Cluster: "demo", Region: "us-west-2", Account: region.AccountID, NodeRole: "nodeless-node", NodeGroups: true,
}

// demoPolicy returns the policy that `nodeless iam` prints.
func demoPolicy(t testing.TB) iampolicy.Document {
	t.Helper()
	complete, err := demo.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return complete.Controller()
}

func newOffice(t testing.TB, policy iampolicy.Document) office {
	t.Helper()
	// Few types, since the story runs some fifty times.
	own := catalog.Own{Zones: []string{"us-west-2a", "us-west-2b"}, Types: []catalog.OwnType{
		{Name: "m5.large", VCPU: 2, MemoryMiB: 8192, Pods: 29, OnDemand: 0.1, Spot: 0.05},
		{Name: "m5.xlarge", VCPU: 4, MemoryMiB: 16384, Pods: 58, OnDemand: 0.2, Spot: 0.1},
	}}
	offers, err := own.Region()
	if err != nil {
		t.Fatal(err)
	}
	p := office{place: newPlaceWith(t, func(c *region.Config) { c.Dir, c.Offers = "", offers })}
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.region.CreatePrincipal(region.RolePrincipal, "controller", "/", trustsTheAccount, nil)
	err = errors.Join(err, p.region.PutPolicy(region.RolePrincipal, "controller", "nodeless", string(text)),
		p.region.SetCluster(region.ClusterInfo{Name: "demo", Version: "1.36", Endpoint: "https://cluster", CA: "CA"}))
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.region.AssumeRole("controller", "wiretest", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(awsapi.New(p.region, awsapi.Options{
		Credentials: awssdk.Credentials{AccessKeyID: "AKIAADMINISTRATOR", SecretAccessKey: "secret"},
	}))
	t.Cleanup(server.Close)
	p.url, p.role = server.URL, credentials.NewStaticCredentialsProvider(k.ID, k.Secret, k.Token)
	return p
}

func (p office) connect(t testing.TB) *aws.Provider {
	return p.connectWith(t, func(o *aws.Options) {
		o.AWS.Credentials, o.InterruptionQueue, o.ClusterARN = p.role, "demo", clusterARN
	})
}

// denied lists the calls that failed for lack of permission.
func (p office) denied() []string {
	var out []string
	for _, c := range p.region.Calls() {
		if slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}, c.Error) {
			out = append(out, c.API)
		}
	}
	return out
}

// step is one step of the story of what the controller does in a cluster's life.
type step struct {
	name string
	do   func() error
}

// tell runs the story until a step fails.
func (p office) tell(t testing.TB) error {
	provider := p.connect(t)
	class := class("fresh")
	p.classes["fresh"] = class
	ids := map[string]string{}
	steps := slices.Concat(p.classSteps(t, provider, class), p.instanceSteps(t, provider, class, ids),
		p.reservationSteps(t, provider, class), p.placementSteps(t, provider, class), p.groupSteps(t, provider), []step{
			{"the class goes", func() error { return provider.Finalize(t.Context(), class) }},
		})
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if denied := p.denied(); len(denied) > 0 {
		return fmt.Errorf("denied: %s", strings.Join(denied, ", "))
	}
	return nil
}

func isReady(class *ec2v1.EC2NodeClass) error {
	if root := class.StatusConditions().Root(); !root.IsTrue() {
		return errors.New(root.Message)
	}
	class.ResourceVersion = "1"
	return nil
}

func (p office) classSteps(t testing.TB, provider *aws.Provider, class *ec2v1.EC2NodeClass) []step {
	resolve := func() error {
		return errors.Join(provider.Resolve(t.Context(), class), isReady(class))
	}
	return []step{
		{"the controller finds the control plane", func() error {
			_, err := aws.FindCluster(t.Context(),
				awssdk.Config{Region: "us-west-2", BaseEndpoint: &p.url, Credentials: p.role}, "demo")
			return err
		}},
		{"traffic of the cluster is shifted away from no zone", func() error {
			_, err := provider.ShiftedZones(t.Context())
			return err
		}},
		{"the class is discovered", resolve},
		{"the class has an image by name", func() error {
			class.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
			return resolve()
		}},
		{"pods get prefixes", func() error {
			provider.DelegatePrefixes(true)
			return resolve()
		}},
		{"the profile loses its role, and gets it back", func() error {
			err := p.region.RemoveRoleFromInstanceProfile(class.Status.InstanceProfile, "nodeless-node")
			if err == nil {
				err = p.region.AddRoleToInstanceProfile(class.Status.InstanceProfile, "another")
			}
			if err != nil {
				return err
			}
			fresh := p.connect(t) // with empty caches
			return errors.Join(fresh.Resolve(t.Context(), class), isReady(class))
		}},
	}
}

func (p office) instanceSteps(t testing.TB, provider *aws.Provider, class *ec2v1.EC2NodeClass,
	ids map[string]string,
) []step {
	launch := func(claim, kind string) func() error {
		return func() error {
			req := requestFor(claim, "general")
			req.Class.Name = class.Name
			req.Requirements = model.NewRequirements(model.OneOf(model.LabelCapacityType, kind))
			result, err := provider.Launch(t.Context(), req)
			ids[claim] = result.Instance.ID
			return err
		}
	}
	return []step{
		{"a pod needs an instance", launch("on-demand", model.OnDemand)},
		{"another takes a spot instance", launch("spot", model.Spot)},
		{"the controller restarts and finds both", func() error {
			found, err := p.connect(t).List(t.Context())
			if err == nil && len(found) != 2 {
				err = fmt.Errorf("found %d instances", len(found))
			}
			return err
		}},
		{"the class changes its security groups, and the instance has drifted", func() error {
			was := class.Status.SecurityGroups
			defer func() { class.Status.SecurityGroups = was }()
			class.Status.SecurityGroups = []ec2v1.SecurityGroup{{ID: "sg-other"}}
			drift, err := provider.Drifted(t.Context(), cloud.Launched{
				InstanceID: ids["on-demand"],
				Class:      cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class.Name},
			})
			if err == nil && drift != "SecurityGroupDrift" {
				err = fmt.Errorf("drift is %q", drift)
			}
			return err
		}},
		{"EC2 reports an interruption", func() error {
			p.clock.Advance(10 * time.Second)
			if err := p.region.Interrupt(ids["spot"]); err != nil {
				return err
			}
			notices, err := provider.Interruptions(t.Context())
			return errors.Join(err, provider.Done(t.Context(), notices...))
		}},
		{"EC2 reports failing instances", func() error { _, err := provider.Unhealthy(t.Context()); return err }},
		{"the instance is consolidated away", func() error { return provider.Terminate(t.Context(), ids["on-demand"]) }},
	}
}

func (p office) reservationSteps(t testing.TB, provider *aws.Provider, class *ec2v1.EC2NodeClass) []step {
	var r region.CapacityReservation
	return []step{
		{"the account reserves capacity, which the class selects", func() (err error) {
			r, err = p.region.CreateCapacityReservation(region.CapacityReservationRequest{
				Type: "m5.large", Zone: p.region.Subnets()[0].Zone, Count: 1, Match: region.MatchTargeted,
			})
			class.Spec.CapacityReservationSelectorTerms = []ec2v1.CapacityReservationSelectorTerm{{ID: r.ID}}
			return errors.Join(err, provider.Resolve(t.Context(), class), isReady(class))
		}},
		{"an instance is launched from it", func() error {
			req := reserved("reserved", r.ID)
			req.Class.Name = class.Name
			_, err := provider.Launch(t.Context(), req)
			return err
		}},
	}
}

func (p office) placementSteps(t testing.TB, provider *aws.Provider, class *ec2v1.EC2NodeClass) []step {
	return []step{
		{"the class selects a placement group", func() error {
			g, err := p.region.CreatePlacementGroup(region.PlacementGroup{Name: "apart", Strategy: region.SpreadPlacement})
			class.Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{ID: &g.ID}
			return errors.Join(err, provider.Resolve(t.Context(), class), isReady(class))
		}},
		{"an instance is launched into it", func() error {
			req := requestFor("placed", "general")
			req.Class.Name = class.Name
			result, err := provider.Launch(t.Context(), req)
			if i, _ := p.region.Instance(result.Instance.ID); err == nil && i.PlacementGroupID == "" {
				err = errors.New("it is in no placement group")
			}
			return err
		}},
	}
}

// scale adds an Auto Scaling group with the cluster's tag, and a NodeGroup for it.
func (p office) scale(name string, l region.GroupLaunch) error {
	n := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{AutoScalingGroupName: name}}
	n.Name = name
	p.classes[name] = aws.FromNodeGroup(n)
	return p.region.CreateAutoScalingGroup(name, region.GroupSettings{
		Max: 2, Subnets: []string{p.region.Subnets()[0].ID}, Launch: l,
	}, []region.GroupTag{{Key: "k8s.io/cluster-autoscaler/demo", Value: "owned"}}, nil)
}

// groups adds the group workers with a launch template, and the group old with a launch configuration.
func (p office) groups() error {
	image, err := p.region.Parameter(
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		return err
	}
	d := region.TemplateData{ImageID: image, InstanceType: "m5.large"}
	_, err = p.region.CreateLaunchTemplate("workers", d, nil)
	return errors.Join(err, p.region.CreateLaunchConfiguration(region.LaunchConfiguration{Name: "old", Data: d}),
		p.scale("workers", region.GroupLaunch{Template: region.TemplateRef{Name: "workers", Version: "$Latest"}}),
		p.scale("old", region.GroupLaunch{Configuration: "old"}))
}

func (p office) groupSteps(t testing.TB, provider *aws.Provider) []step {
	g := grouped{p.place}
	claimed := ""
	launch := func(claim string) func() error {
		return func() error {
			got, err := g.launch(t.Context(), provider, claim)
			claimed = got.Instance.ID
			return err
		}
	}
	return []step{
		{"there are Auto Scaling groups", p.groups},
		{"they are discovered", func() error {
			names, err := provider.DiscoverGroups(t.Context(), []string{"k8s.io/cluster-autoscaler/demo"})
			if err == nil && len(names) != 2 {
				err = fmt.Errorf("discovered %v", names)
			}
			return err
		}},
		{"their NodeGroups are resolved", func() error {
			return errors.Join(provider.Resolve(t.Context(), p.classes["workers"]),
				provider.Resolve(t.Context(), p.classes["old"]))
		}},
		{"one grows for a pod", launch("grown")},
		{"the claim lets its instance go", func() error { return provider.ReleaseInstance(t.Context(), claimed) }},
		{"another claim takes it", launch("taken")},
		{"it shrinks", func() error { return provider.Terminate(t.Context(), claimed) }},
		{"it cannot grow for want of capacity", func() error {
			zone := p.region.Subnets()[0].Zone
			err := p.region.SetCapacity(region.Pool{Type: "m5.large", Zone: zone, CapacityType: region.OnDemand}, 0)
			if err != nil {
				return err
			}
			if err := launch("late")(); !errors.Is(err, cloud.ErrNoCapacity) {
				return fmt.Errorf("want %w, got %w", cloud.ErrNoCapacity, err)
			}
			return nil
		}},
	}
}

// The policy that `nodeless iam` prints is enough for everything that the controller does in a cluster's life.
func TestThePolicyOfTheControllerIsEnough(t *testing.T) {
	if err := newOffice(t, demoPolicy(t)).tell(t); err != nil {
		t.Error(err)
	}
}

// Without any one of its actions the same story fails, so no action of the policy is superfluous. Each statement has
// an action, so no statement is superfluous either.
func TestNoActionOfThePolicyIsToSpare(t *testing.T) {
	whole := demoPolicy(t)
	for i, s := range whole.Statement {
		for _, action := range s.Action {
			less := iampolicy.Document{Version: whole.Version, Statement: slices.Clone(whole.Statement)}
			less.Statement[i].Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
			if len(less.Statement[i].Action) == 0 {
				less.Statement = slices.Delete(less.Statement, i, i+1)
			}
			if err := newOffice(t, less).tell(t); err == nil {
				t.Errorf("statement %s: the story passes without %s", s.Sid, action)
			} else {
				t.Logf("%s without %s: %v", s.Sid, action, err)
			}
		}
	}
}

// The policy of one cluster does not cover another cluster's instances.
func TestThePolicyStopsAtItsCluster(t *testing.T) {
	other, err := iampolicy.Scope{Cluster: "other", Region: "us-west-2", Account: region.AccountID}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	p := newOffice(t, other.Controller())
	admin := p.connectWith(t, func(o *aws.Options) {
		o.AWS.Credentials = credentials.NewStaticCredentialsProvider("AKIAADMINISTRATOR", "secret", "")
	})
	got, err := admin.Launch(t.Context(), pinned("of-demo", "general"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.connect(t).Terminate(t.Context(), got.Instance.ID); !errors.Is(err, cloud.ErrUnauthorized) {
		t.Errorf("terminated by the controller of another cluster: %v", err)
	}
	if _, err := p.connect(t).Launch(t.Context(), pinned("for-demo", "general")); !errors.Is(err, cloud.ErrUnauthorized) {
		t.Errorf("launched for another cluster: %v", err)
	}
}
