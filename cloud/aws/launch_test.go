package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func mustLaunch(t *testing.T, p *Provider, req cloud.LaunchRequest) cloud.LaunchResult {
	t.Helper()
	result, err := p.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// The latency of a launch is one round trip: all but CreateFleet comes from caches.
func TestLaunchMakesOneCallOnceCachesAreWarm(t *testing.T) {
	a, p, _ := stage(t)
	mustLaunch(t, p, requestFor("warm-up"))
	a.mu.Lock()
	a.calls = nil
	a.mu.Unlock()
	mustLaunch(t, p, requestFor("quick"))
	if !slices.Equal(a.calls, []string{"CreateFleet"}) {
		t.Errorf("calls were %v", a.calls)
	}
}

// The status of a class that has been edited is that of its earlier spec: a launch waits until the class is resolved
// again. A class that is only planned, as in a forecast, has no generation.
func TestLaunchWaitsUntilAnEditedClassIsResolved(t *testing.T) {
	_, p, class := stage(t)
	for _, step := range []struct {
		generation int64
		resolved   bool
		want       error
	}{{1, true, nil}, {2, false, cloud.ErrClassUnresolved}, {2, true, nil}, {0, false, nil}} {
		class.Generation = step.generation
		if step.resolved {
			resolve(t, p, class)
		}
		if _, err := p.Launch(t.Context(), requestFor(fmt.Sprint("c", step.generation))); !errors.Is(err, step.want) {
			t.Errorf("generation %d, resolved %v: %v, want %v", step.generation, step.resolved, err, step.want)
		}
	}
}

func TestLaunchTagsAndBootsTheInstance(t *testing.T) {
	a, p, _ := stage(t)
	req := requestFor("c1", model.OneOf(model.LabelInstanceType, "m7g.large"),
		model.OneOf(model.LabelCapacityType, model.OnDemand))
	req.Labels = map[string]string{"team": "blue", "node-role.kubernetes.io/app": "x"}
	req.Taints = []model.Taint{{Key: "dedicated", Value: "batch", Effect: model.NoSchedule}}
	req.StartupTaints = []model.Taint{{Key: "cilium", Effect: model.NoExecute}}
	m := mustLaunch(t, p, req).Instance
	if m.ImageID != "ami-arm" || m.Labels["kubernetes.io/arch"] != "arm64" || m.Labels["topology.k8s.aws/zone-id"] == "" {
		t.Errorf("instance %+v", m)
	}
	tags := map[string]string{}
	for _, tag := range a.instances[0].Tags {
		tags[*tag.Key] = *tag.Value
	}
	for k, v := range map[string]string{
		"karpenter.sh/nodepool": "general", "karpenter.sh/nodeclaim": "c1", "karpenter.k8s.aws/ec2nodeclass": "default",
		"eks:eks-cluster-name": "demo", "kubernetes.io/cluster/demo": "owned", "Name": "c1", tagToken: "uid-c1",
	} {
		if tags[k] != v {
			t.Errorf("tag %s is %q, want %q", k, tags[k], v)
		}
	}
	for name, data := range a.templates {
		text := decode(t, data.UserData)
		for _, want := range []string{
			"name: demo", "karpenter.sh/capacity-type=on-demand",
			"karpenter.sh/nodepool=general", "team=blue", "key: dedicated", "key: cilium", "key: karpenter.sh/unregistered",
			"- 10.100.0.10",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("user data of %s lacks %q:\n%s", name, want, text)
			}
		}
		if strings.Contains(text, "node-role") {
			t.Error("the kubelet would refuse to start with a node-role label")
		}
		if *data.IamInstanceProfile.Name == "" || !slices.Equal(data.SecurityGroupIds, []string{"sg-1"}) ||
			!strings.HasPrefix(name, "karpenter.k8s.aws/") {
			t.Errorf("template %s: %+v", name, data)
		}
	}
}

func TestLaunchPicksPlainAndCheapInstances(t *testing.T) {
	_, p, _ := stage(t)
	if m := mustLaunch(t, p, requestFor("any")).Instance; m.Type != "t3.medium" || m.CapacityType != model.Spot ||
		m.Zone == "us-west-2c" {
		t.Errorf("launched %s %s in %s; spot in us-west-2c costs more than on demand", m.Type, m.CapacityType, m.Zone)
	}
	gpu := requestFor("gpu")
	gpu.Requests[model.NvidiaGPU] = 1
	if m := mustLaunch(t, p, gpu).Instance; m.Type != "g5.xlarge" || m.ImageID != "ami-gpu" {
		t.Errorf("launched %s for a pod with a GPU", m.Type)
	}
}

// The choices for EC2 must not include spot that costs more than on-demand, nor GPUs: EC2 would take them if the
// others ran out.
func TestSpotAboveOnDemandAndGPUsAreNoChoice(t *testing.T) {
	_, p, class := stage(t)
	catalog, err := p.catalogs.of(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	req := requestFor("any")
	choices := catalog.choices(&req)
	cheapest := choices[slices.IndexFunc(choices, func(o choice) bool { return o.CapacityType == model.OnDemand })].price
	for _, o := range choices {
		if o.CapacityType == model.Spot && o.price > cheapest {
			t.Errorf("%s %s in %s costs %d, on-demand %d", o.CapacityType, o.Type, o.Zone, o.price, cheapest)
		}
		if o.Type == "g5.xlarge" {
			t.Errorf("%s for a pod without a GPU", o.Type)
		}
	}
}

// Where zones cost the same, launches spread over them, and a token keeps its zone.
func TestLaunchesSpreadOverZonesThatCostTheSame(t *testing.T) {
	_, p, _ := stage(t)
	_, again, _ := stage(t)
	zones := map[string]int{}
	for i := range 90 {
		req := requestFor(fmt.Sprintf("c%d", i), model.OneOf(model.LabelInstanceType, "m5.large"),
			model.OneOf(model.LabelCapacityType, model.OnDemand))
		zone := mustLaunch(t, p, req).Instance.Zone
		zones[zone]++
		if other := mustLaunch(t, again, req).Instance.Zone; other != zone {
			t.Errorf("%s was launched in %s, another controller launches it in %s", req.Claim, zone, other)
		}
	}
	for _, z := range fakeZones {
		if zones[z] < 20 || zones[z] > 40 {
			t.Errorf("90 instances are spread as %v, want about 30 in each of %v", zones, fakeZones)
		}
	}
}

func TestLaunchMakesLostTemplatesAgain(t *testing.T) {
	a, p, _ := stage(t)
	mustLaunch(t, p, requestFor("first"))
	a.mu.Lock()
	clear(a.templates)
	a.mu.Unlock()
	mustLaunch(t, p, requestFor("second"))
	if got := len(a.alive()); got != 2 {
		t.Errorf("%d instances, want 2", got)
	}
}

// A full subnet costs one more call, not the zone.
func TestLaunchGoesToAnotherSubnetOfTheZone(t *testing.T) {
	a, p, _ := stage(t)
	a.full["subnet-a2"] = true
	result := mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelZone, "us-west-2a")))
	if got := *a.instances[0].SubnetId; got != "subnet-a1" || len(result.Exhausted) != 0 {
		t.Errorf("launched into %s, exhausted %v", got, result.Exhausted)
	}
	mustLaunch(t, p, requestFor("d", model.OneOf(model.LabelZone, "us-west-2a")))
	if got := a.count("CreateFleet"); got != 3 {
		t.Errorf("%d calls; the second launch should have known that subnet-a2 is full", got)
	}
}

func TestLaunchWithoutTheSpotRoleGoesOnDemand(t *testing.T) {
	a, p, _ := stage(t)
	a.fail["CreateFleet"] = []error{apiError(codeNoSpotRole, "no role")}
	result := mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large")))
	if result.Instance.CapacityType != model.OnDemand || len(result.Exhausted) != 3 {
		t.Errorf("launched %s, exhausted %v", result.Instance.CapacityType, result.Exhausted)
	}
}

func TestErrorsOfAWSBecomeSentinels(t *testing.T) {
	for code, want := range map[string]error{
		"RequestLimitExceeded":  cloud.ErrThrottled,
		"UnauthorizedOperation": cloud.ErrUnauthorized, "InvalidParameterValue": cloud.ErrRefused,
	} {
		a, p, _ := stage(t)
		a.fail["CreateFleet"] = []error{apiError(code, "no")}
		if _, err := p.Launch(t.Context(), requestFor("c")); !errors.Is(err, want) {
			t.Errorf("%s became %v", code, err)
		}
		mustLaunch(t, p, requestFor("c"))
		if got := len(a.alive()); got != 1 {
			t.Errorf("%d instances after the second try", got)
		}
	}
}

// Permanent rejections by EC2 are distinguished from EC2's own failures, in every call of a launch.
func TestRefusalsAreTold(t *testing.T) {
	for code, refused := range map[string]bool{
		"InvalidParameterValue": true, "InvalidUserData.Malformed": true,
		"InternalError": false, "Unavailable": false, "RequestLimitExceeded": false,
	} {
		for _, call := range []string{"CreateFleet", "CreateLaunchTemplate"} {
			a, p, _ := stage(t)
			a.fail[call] = []error{apiError(code, "no")}
			_, err := p.Launch(t.Context(), requestFor("c"))
			if errors.Is(err, cloud.ErrRefused) != refused || err == nil {
				t.Errorf("%s of %s became %v", code, call, err)
			}
		}
	}
}

// EC2 sees a new instance profile with a delay, and then reports that its name is invalid. A profile that the class
// names is wrong until the class is changed.
func TestLaunchIsTriedAgainUntilEC2SeesTheProfile(t *testing.T) {
	fault := func(code, message string) ec2types.CreateFleetError {
		return ec2types.CreateFleetError{ErrorCode: &code, ErrorMessage: &message}
	}
	unseen := fault("InvalidParameterValue", "Value (demo_1) for parameter iamInstanceProfile.name is invalid. "+
		"Invalid IAM Instance Profile name")
	for _, errs := range [][]ec2types.CreateFleetError{
		{unseen}, {fault("UnfulfillableCapacity", "Unable to fulfill capacity"), unseen},
	} {
		for _, named := range []bool{false, true} {
			a, p, class := stage(t)
			if named {
				class.Spec.Role, class.Spec.InstanceProfile = "", new("theirs")
				resolve(t, p, class)
			}
			a.unstarted = errs
			result, err := p.Launch(t.Context(), requestFor("c"))
			if err == nil || errors.Is(err, cloud.ErrRefused) != named || errors.Is(err, cloud.ErrNoCapacity) ||
				len(result.Exhausted) != 0 || a.count("CreateFleet") != 1 {
				t.Errorf("%d errors, profile of the user %t: %v, exhausted %v, %d calls", len(errs), named, err,
					result.Exhausted, a.count("CreateFleet"))
			}
			mustLaunch(t, p, requestFor("c"))
		}
	}
}

func TestWhichEndingsAreOfTheLaunch(t *testing.T) {
	for code, want := range map[string]bool{
		"Client.InvalidKMSKey.InvalidState": true, "Client.InternalError": true, "Client.VolumeLimitExceeded": true,
		"Server.InternalError":         true,
		"Client.UserInitiatedShutdown": false, "Client.InstanceInitiatedShutdown": false,
		"Server.SpotInstanceTermination": false, "": false,
	} {
		if got := endingOf(code, "").AtLaunch; got != want {
			t.Errorf("%q is of the launch: %t, want %t", code, got, want)
		}
	}
}

// After a crash EC2 knows the token, but its lists may not contain the instance yet. A new launch would create a
// second one.
func TestLaunchWaitsForAnInstanceThatIsNotListedYet(t *testing.T) {
	a, first, class := stage(t)
	onDemand := model.OneOf(model.LabelCapacityType, model.OnDemand)
	mustLaunch(t, first, requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "m5.large")))
	clk := clock.NewVirtual(time.Unix(1000, 0))
	after := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{"default": class}, func(o *Options) { o.Clock = clk })
	changed := requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "t3.medium"))
	a.hidden = true
	if _, err := after.Launch(t.Context(), changed); err == nil || errors.Is(err, cloud.ErrNoCapacity) {
		t.Fatalf("launch while lists lag: %v", err)
	}
	a.hidden = false
	if m := mustLaunch(t, after, changed).Instance; m.Type != "m5.large" {
		t.Errorf("found %s", m.Type)
	}
	if got := len(a.alive()); got != 1 {
		t.Errorf("%d instances", got)
	}
}

// An earlier launch that created nothing must not block its token for ever.
func TestLaunchGoesOnWhenTheEarlierOneGaveNothing(t *testing.T) {
	a, first, class := stage(t)
	onDemand := model.OneOf(model.LabelCapacityType, model.OnDemand)
	for _, z := range fakeZones {
		a.empty[model.OfferingKey{Type: "m5.large", Zone: z, CapacityType: model.OnDemand}] = true
	}
	if _, err := first.Launch(t.Context(),
		requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "m5.large"))); !errors.Is(err, cloud.ErrNoCapacity) {
		t.Fatal(err)
	}
	clk := clock.NewVirtual(time.Unix(1000, 0))
	after := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{"default": class}, func(o *Options) { o.Clock = clk })
	changed := requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "t3.medium"))
	if _, err := after.Launch(t.Context(), changed); err == nil {
		t.Fatal("launched before the lists had settled")
	}
	clk.Advance(settleAfter)
	mustLaunch(t, after, changed)
	if got := len(a.alive()); got != 1 {
		t.Errorf("%d instances", got)
	}
}

// An earlier launch's instance that is shutting down cannot become a node: the claim gets another one.
func TestLaunchGoesOnWhenTheEarlierInstanceEnds(t *testing.T) {
	a, first, class := stage(t)
	onDemand := model.OneOf(model.LabelCapacityType, model.OnDemand)
	ended := mustLaunch(t, first, requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "m5.large"))).Instance
	a.mu.Lock()
	a.instances[0].State = &ec2types.InstanceState{Name: ec2types.InstanceStateNameShuttingDown}
	a.mu.Unlock()
	after := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{"default": class})
	changed := requestFor("c", onDemand, model.OneOf(model.LabelInstanceType, "t3.medium"))
	if m := mustLaunch(t, after, changed).Instance; m.ID == ended.ID || m.Type != "t3.medium" {
		t.Errorf("got %s %s; %s is shutting down", m.Type, m.ID, ended.ID)
	}
}

func TestOneTemplatePerNumberOfPodsWithReservedInterfaces(t *testing.T) {
	a, p, _ := stage(t, func(o *Options) { o.ReservedENIs = 1 })
	oneTemplatePerNumberOfPods(t, a, p)
}

// Custom networking reserves an interface as RESERVED_ENIS=1 does, even if the catalogue was read before.
func TestCustomNetworkingReservesAnInterface(t *testing.T) {
	for _, reserved := range []int{0, 1} {
		a, p, _ := stage(t, func(o *Options) { o.ReservedENIs = reserved })
		if _, err := p.Catalog(t.Context(), classRef); err != nil {
			t.Fatal(err)
		}
		p.ReserveENIs(1)
		oneTemplatePerNumberOfPods(t, a, p)
	}
}

func oneTemplatePerNumberOfPods(t *testing.T, a *fakeAccount, p *Provider) {
	t.Helper()
	mustLaunch(t, p, requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large", "t3.medium"),
		model.OneOf(model.LabelCapacityType, model.OnDemand)))
	var found []string
	for _, data := range a.templates {
		for _, line := range strings.Split(decode(t, data.UserData), "\n") {
			if strings.Contains(line, "maxPods") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	if slices.Sort(found); !slices.Equal(found, []string{"maxPods: 12", "maxPods: 20"}) {
		t.Errorf("templates say %v", found)
	}
}

func TestFleetRequestStaysWithinEC2Limits(t *testing.T) {
	var choices []choice
	for i := range 100 {
		for _, z := range []string{"a", "b", "c", "d", "e", "f"} {
			choices = append(choices,
				choice{
					OfferingKey: model.OfferingKey{Type: string(rune('A' + i)), Zone: z, CapacityType: model.OnDemand},
					price:       model.Price(i + 1),
				})
		}
	}
	types := map[string]bool{}
	named := nextChoices(choices, nil)
	for _, o := range named {
		types[o.Type] = true
	}
	if len(named) > maxOverrides || len(types) > maxTypes {
		t.Errorf("%d overrides of %d types", len(named), len(types))
	}
}

func TestInterruptedLaunchUsesItsTokenAgain(t *testing.T) {
	a, p, _ := stage(t)
	mustLaunch(t, p, requestFor("warm-up"))
	// The response is lost: the instance exists, but the caller received an error.
	lost := requestFor("c", model.OneOf(model.LabelInstanceType, "m5.large"))
	class := p.o.Classes(cloud.ClassRef{Name: "default"})
	catalog, err := p.catalogs.of(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	l := &launch{p: p, class: class, catalog: catalog, req: &lost, state: &launchState{}}
	groups, err := l.group(t.Context(), nextChoices(catalog.choices(&lost), nil), model.Spot)
	if err != nil {
		t.Fatal(err)
	}
	in := l.input(groups, groups[0].choices[0], p.subnets.choose(class, nil))
	if _, err := p.ec2.CreateFleet(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	mustLaunch(t, p, lost)
	if got := len(a.alive()); got != 2 {
		t.Errorf("%d instances, want the warm-up's and one", got)
	}
	if i := a.instances[1]; i.InstanceLifecycle != ec2types.InstanceLifecycleTypeSpot {
		t.Errorf("instance %+v", i)
	}
}
