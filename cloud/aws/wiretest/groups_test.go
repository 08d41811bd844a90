package wiretest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

var workers = cloud.ClassRef{Group: "nodeless.sh", Kind: "NodeGroup", Name: "workers"}

// grouped is a region with the Auto Scaling group workers, of at most two m5.large in one zone, and a NodeGroup for
// it.
type grouped struct{ *place }

func newGrouped(t *testing.T, change func(*region.GroupSettings), tags ...region.GroupTag) grouped {
	t.Helper()
	p := grouped{newPlace(t)}
	image, err := p.region.Parameter(
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.region.CreateLaunchTemplate("workers", region.TemplateData{ImageID: image, InstanceType: "m5.large"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := region.GroupSettings{
		Max: 2, Subnets: []string{p.region.Subnets()[0].ID},
		Launch: region.GroupLaunch{Template: region.TemplateRef{Name: "workers", Version: "$Latest"}},
	}
	if change != nil {
		change(&want)
	}
	if err := p.region.CreateAutoScalingGroup("workers", want, tags, nil); err != nil {
		t.Fatal(err)
	}
	n := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{AutoScalingGroupName: "workers"}}
	n.Name = "workers"
	p.classes["workers"] = aws.FromNodeGroup(n)
	p.read(t, p.connect(t))
	return p
}

// read resolves the NodeGroup and returns its status.
func (p grouped) read(t *testing.T, provider *aws.Provider) v1alpha1.NodeGroupStatus {
	t.Helper()
	if err := provider.Resolve(t.Context(), p.classes["workers"]); err != nil {
		t.Fatal(err)
	}
	return aws.NodeGroupOf(p.classes["workers"]).Status
}

func (p grouped) desired() int { return p.region.AutoScalingGroups()[0].Desired }

// during advances the region's time while do runs.
func (p grouped) during(do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	for tick := time.NewTicker(10 * time.Millisecond); ; p.clock.Advance(500 * time.Millisecond) {
		select {
		case <-done:
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// launch launches an instance for a claim.
func (p grouped) launch(ctx context.Context, provider *aws.Provider, claim string) (out cloud.LaunchResult, err error) {
	req := requestFor(claim, "workers")
	req.Class = workers
	p.during(func() { out, err = provider.Launch(ctx, req) })
	return out, err
}

// begin launches an instance for a claim in the background.
func (p grouped) begin(ctx context.Context, provider *aws.Provider, claim string) <-chan error {
	ended := make(chan error, 1)
	req := requestFor(claim, "workers")
	req.Class = workers
	go func() {
		_, err := provider.Launch(ctx, req)
		ended <- err
	}()
	return ended
}

// interrupt cancels a claim's launch when it has raised the size of the empty group and waits.
func (p grouped) interrupt(t *testing.T, provider *aws.Provider, claim string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := p.begin(ctx, provider, claim)
	for p.desired() == 0 { // time stands still: no instance launches
		runtime.Gosched()
	}
	for before := p.looks(); p.looks() == before; { // it waits for the instance
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the interrupted launch succeeded")
	}
}

// looks returns how many times the group was described.
func (p grouped) looks() (n int) {
	for _, c := range p.region.Calls() {
		if c.API == "DescribeAutoScalingGroups" {
			n++
		}
	}
	return n
}

// A group's offer follows from its launch template and its tags.
func TestWhatANodeGroupOffers(t *testing.T) {
	const tag = "k8s.io/cluster-autoscaler/node-template/"
	p := newGrouped(t, func(s *region.GroupSettings) { s.Min, s.Desired = 1, 1 },
		region.GroupTag{Key: tag + "label/team", Value: "a"}, region.GroupTag{Key: tag + "taint/gpu", Value: "yes:NoSchedule"},
		region.GroupTag{Key: tag + "resources/ephemeral-storage", Value: "100Gi"})
	provider := p.connect(t)
	s := p.read(t, provider)
	if s.MinSize != 1 || s.MaxSize != 2 || s.DesiredSize != 1 || s.Labels["team"] != "a" || len(s.Taints) != 1 ||
		s.Taints[0].ToString() != "gpu=yes:NoSchedule" || s.Resources.StorageEphemeral().String() != "100Gi" {
		t.Errorf("status %+v", s)
	}
	types, err := provider.Catalog(t.Context(), workers)
	if err != nil || len(types) != 1 || types[0].Name != "m5.large" || len(types[0].Offerings) != 1 ||
		types[0].Offerings[0].CapacityType != model.OnDemand {
		t.Fatalf("offers %+v, %v", types, err)
	}
}

// A group of several types offers the capacity of the smallest: Auto Scaling chooses the type.
func TestAGroupOfSeveralTypesHasTheRoomOfTheSmallest(t *testing.T) {
	p := newGrouped(t, func(s *region.GroupSettings) {
		s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
			Template:         s.Launch.Template,
			Overrides:        []region.GroupOverride{{InstanceType: "m5.xlarge"}, {InstanceType: "r5.large"}},
			OnDemandStrategy: region.Prioritized, SpotStrategy: region.PriceCapacityOptimized,
		}}
	})
	types, err := p.connect(t).Catalog(t.Context(), workers)
	if err != nil || len(types) != 2 || types[0].Capacity != types[1].Capacity || types[0].Capacity[model.CPU] != 2000 ||
		types[0].Capacity[model.Memory] > 16<<30 {
		t.Fatalf("%+v, %v", types, err)
	}
	for _, offering := range types[0].Offerings {
		if offering.CapacityType != model.Spot {
			t.Errorf("it launches spot instances alone, and offers %+v", offering)
		}
	}
}

// A launch raises the desired size by one, a termination lowers it; below the minimum Auto Scaling replaces the
// instance.
func TestAGroupGrowsAndShrinksByItsClaims(t *testing.T) {
	p := newGrouped(t, nil)
	provider := p.connect(t)
	got, err := p.launch(t.Context(), provider, "one")
	if err != nil || got.Instance.Type != "m5.large" || p.desired() != 1 {
		t.Fatalf("%+v, %v, desired %d", got, err, p.desired())
	}
	again, err := p.launch(t.Context(), p.connect(t), "one")
	if err != nil || again.Instance.ID != got.Instance.ID || p.desired() != 1 {
		t.Errorf("the same claim once more: %s and %s, %v, desired %d", got.Instance.ID, again.Instance.ID, err, p.desired())
	}
	listed, err := provider.List(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Claim != "one" || listed[0].Class != "nodegroup/workers" {
		t.Errorf("listed %+v, %v", listed, err)
	}
	if _, err := p.launch(t.Context(), provider, "two"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.launch(t.Context(), provider, "three"); !errors.Is(err, cloud.ErrRefused) ||
		!strings.Contains(err.Error(), "raise the maximum") || p.desired() != 2 {
		t.Errorf("beyond the maximum: %v, desired %d", err, p.desired())
	}
	fresh := p.connect(t) // has not seen the instance
	for range 2 {
		if err := fresh.Terminate(t.Context(), got.Instance.ID); err != nil || p.desired() != 1 {
			t.Fatalf("the end of an instance: %v, desired %d", err, p.desired())
		}
	}
	p.clock.Advance(10 * time.Minute)
	if err := fresh.Terminate(t.Context(), got.Instance.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("the end of an instance that is gone: %v", err)
	}
	err = p.region.UpdateAutoScalingGroup("workers", func(s *region.GroupSettings) error { s.Min = 1; return nil })
	if err != nil {
		t.Fatal(err)
	}
	listed, _ = provider.List(t.Context())
	if err := provider.Terminate(t.Context(), listed[0].ID); err != nil || p.desired() != 1 {
		t.Errorf("the end of the last instance of the minimum: %v, desired %d", err, p.desired())
	}
}

// A process that ends between raising the size and tagging the instance raises it only once.
func TestAnInterruptedLaunchOrdersOnce(t *testing.T) {
	p := newGrouped(t, nil)
	p.interrupt(t, p.connect(t), "one")
	before := p.looks()
	second := p.begin(t.Context(), p.connect(t), "one")
	for p.looks() < before+2 { // it has seen the instance in flight
		runtime.Gosched()
	}
	if p.desired() != 1 {
		t.Errorf("%d instances were ordered for one claim", p.desired())
	}
	p.during(func() {
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// The instance that an interrupted launch ordered goes to the next launch in the group, of whichever claim. The launch
// after that orders one of its own.
func TestTheNextLaunchTakesWhatAnInterruptedOneOrdered(t *testing.T) {
	p := newGrouped(t, nil)
	provider := p.connect(t)
	p.interrupt(t, provider, "one")
	if _, err := p.launch(t.Context(), provider, "two"); err != nil || p.desired() != 1 {
		t.Errorf("the only claim that waits: %v, desired %d", err, p.desired())
	}
	if _, err := p.launch(t.Context(), provider, "one"); err != nil || p.desired() != 2 {
		t.Errorf("the interrupted claim once more: %v, desired %d", err, p.desired())
	}
}

// Existing instances are adopted, each by its claim, and can be released again.
func TestInstancesOfAGroupAreAdopted(t *testing.T) {
	p := newGrouped(t, func(s *region.GroupSettings) { s.Desired = 2 })
	p.clock.Advance(10 * time.Minute)
	provider := p.connect(t)
	free, err := provider.UnclaimedInstances(t.Context(), workers)
	if err != nil || len(free) != 2 {
		t.Fatalf("unclaimed: %+v, %v", free, err)
	}
	req := requestFor("adopts", "workers")
	req.Class, req.Instance = workers, free[1].ID
	got, err := provider.Launch(t.Context(), req)
	if err != nil || got.Instance.ID != free[1].ID || p.desired() != 2 {
		t.Fatalf("%+v, %v, desired %d", got, err, p.desired())
	}
	req.Token, req.Claim = "other", "other"
	if _, err := provider.Launch(t.Context(), req); !errors.Is(err, cloud.ErrNoCapacity) {
		t.Errorf("an instance that is another claim's: %v", err)
	}
	if left, _ := provider.UnclaimedInstances(t.Context(), workers); len(left) != 1 || left[0].ID != free[0].ID {
		t.Errorf("unclaimed: %+v", left)
	}
	if err := provider.ReleaseInstance(t.Context(), free[1].ID); err != nil {
		t.Fatal(err)
	}
	if left, _ := provider.UnclaimedInstances(t.Context(), workers); len(left) != 2 {
		t.Errorf("unclaimed after one was let go: %+v", left)
	}
	if _, err := provider.Launch(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := provider.ReleaseInstance(t.Context(), free[1].ID); err != nil { // at once: nobody has seen its tags
		t.Fatal(err)
	}
	if left, _ := provider.UnclaimedInstances(t.Context(), workers); len(left) != 2 {
		t.Errorf("unclaimed after one was let go at once: %+v", left)
	}
}

// A launch for which EC2 has no capacity is undone and reports it.
func TestAFailedActivityTakesTheOrderBack(t *testing.T) {
	p := newGrouped(t, nil)
	pool := region.Pool{Type: "m5.large", Zone: p.region.Subnets()[0].Zone, CapacityType: region.OnDemand}
	if err := p.region.SetCapacity(pool, 0); err != nil {
		t.Fatal(err)
	}
	got, err := p.launch(t.Context(), p.connect(t), "one")
	if !errors.Is(err, cloud.ErrNoCapacity) || len(got.Exhausted) != 1 || !got.OfClass || p.desired() != 0 {
		t.Errorf("%+v, %v, desired %d", got, err, p.desired())
	}
}

// A fault that the user has to fix becomes a condition that names it and the remedy.
func TestFaultsOfAGroupAreConditions(t *testing.T) {
	denied := &region.APIError{Code: "AccessDenied", Message: "jane may not"}
	for name, story := range map[string]struct {
		spoil             func(t *testing.T, p grouped)
		condition, reason string
		message           string
	}{
		"the group is gone": {
			func(t *testing.T, p grouped) { must(t, p.region.DeleteAutoScalingGroup("workers", true)) },
			"GroupFound", "GroupNotFound", `no Auto Scaling group "workers"; create it`,
		},
		"its template is gone": {
			func(t *testing.T, p grouped) { _, err := p.region.DeleteLaunchTemplate("", "workers"); must(t, err) },
			"TemplateFound", "TemplateNotFound", "launch template workers does not exist any more; give Auto Scaling group",
		},
		"it may not be read": {
			func(_ *testing.T, p grouped) { p.region.Fail("DescribeAutoScalingGroups", denied, 100) },
			"GroupFound", "Unauthorized", "allow autoscaling:DescribeAutoScalingGroups",
		},
		"a taint of its tags is none": {
			func(t *testing.T, p grouped) {
				must(t, p.region.TagAutoScalingGroup("workers",
					[]region.GroupTag{{Key: "k8s.io/cluster-autoscaler/node-template/taint/x", Value: "y"}}, nil))
			}, "TemplateFound", "TagInvalid", "write VALUE:EFFECT",
		},
		"it counts in weights": {
			func(t *testing.T, p grouped) {
				must(t, p.region.UpdateAutoScalingGroup("workers", func(s *region.GroupSettings) error {
					s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
						Template: s.Launch.Template, Overrides: []region.GroupOverride{{InstanceType: "m5.large", Weight: 2}},
						OnDemandStrategy: region.Prioritized, SpotStrategy: region.LowestPrice,
					}}
					return nil
				}))
			}, "TemplateFound", "WeightedCapacity", "remove the weights",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newGrouped(t, nil)
			provider := p.connect(t)
			story.spoil(t, p)
			p.clock.Advance(10 * time.Minute)
			found := map[string]string{}
			for _, c := range p.read(t, provider).Conditions {
				found[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			for _, kind := range []string{story.condition, "Ready"} {
				if c := found[kind]; !strings.HasPrefix(c, "False "+story.reason+": ") || !strings.Contains(c, story.message) {
					t.Errorf("%s is %s", kind, c)
				}
			}
			if _, err := provider.Catalog(t.Context(), workers); !errors.Is(err, cloud.ErrClassNotReady) {
				t.Errorf("it offers something: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Groups are discovered by their tag keys.
func TestGroupsAreDiscoveredByTheirTags(t *testing.T) {
	p := newGrouped(t, nil, region.GroupTag{Key: "k8s.io/cluster-autoscaler/enabled", Value: "false"},
		region.GroupTag{Key: "k8s.io/cluster-autoscaler/demo", Value: "owned"})
	for keys, want := range map[string]int{
		"k8s.io/cluster-autoscaler/enabled k8s.io/cluster-autoscaler/demo":  1,
		"k8s.io/cluster-autoscaler/enabled k8s.io/cluster-autoscaler/other": 0,
	} {
		if got, err := p.connect(t).DiscoverGroups(t.Context(), strings.Fields(keys)); err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", keys, got, err)
		}
	}
}
