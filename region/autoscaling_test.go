package region_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nodeless/nodeless/region"
)

// grouped is a region with an Auto Scaling group "web" of m5.large in all zones.
type grouped struct{ place }

func newGroup(t *testing.T, c region.Config, change func(*region.GroupSettings)) grouped {
	t.Helper()
	p := grouped{seeded(t, c)}
	want := region.GroupSettings{
		Max: 12, Desired: 3, Launch: region.GroupLaunch{Template: region.TemplateRef{Name: "web", Version: "$Latest"}},
	}
	for _, s := range p.Subnets()[:3] {
		want.Subnets = append(want.Subnets, s.ID)
	}
	image, err := p.Parameter("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.CreateLaunchTemplate("web", region.TemplateData{ImageID: image, InstanceType: "m5.large"}, nil); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&want)
	}
	tags := []region.GroupTag{{Key: "team", Value: "a", Propagate: true}, {Key: "kept", Value: "here"}}
	if err := p.CreateAutoScalingGroup("web", want, tags, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p grouped) group() region.AutoScalingGroup {
	p.t.Helper()
	for _, g := range p.AutoScalingGroups() {
		if g.Name == "web" {
			return g
		}
	}
	p.t.Fatal("the group is gone")
	return region.AutoScalingGroup{}
}

// members counts the group's members by zone and lifecycle: "a InService".
func (p grouped) members() map[string]int {
	out := map[string]int{}
	for _, m := range p.group().Members {
		out[m.Zone[len(m.Zone)-1:]+" "+m.Lifecycle]++
	}
	return out
}

func (p grouped) wantMembers(want map[string]int) {
	p.t.Helper()
	if got := p.members(); !maps.Equal(got, want) {
		p.t.Errorf("members %v, want %v", got, want)
	}
}

// last returns the n newest activities, newest first.
func (p grouped) last(n int) []region.Activity {
	p.t.Helper()
	all, err := p.ScalingActivities("web")
	if err != nil || len(all) < n {
		p.t.Fatalf("%d activities, %v", len(all), err)
	}
	return all[:n]
}

func (p grouped) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestAGroupKeepsItsDesiredCapacityInAllZones(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 1})
	m := p.group().Members[0]
	if i, _ := p.Instance(m.ID); i.Type != "m5.large" || i.Tags["team"] != "a" || i.Tags["kept"] != "" ||
		i.Tags["aws:autoscaling:groupName"] != "web" || m.Template.Version != "1" {
		t.Errorf("instance %+v of %+v", i.Tags, m.Template)
	}
	p.do(p.SetDesiredCapacity("web", 5, false))
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 2, "b InService": 2, "c InService": 1})

	if a := p.last(1)[0]; a.Status != region.ActivitySuccessful || a.Progress != 100 ||
		!strings.HasPrefix(a.Description, "Launching a new EC2 instance: i-") ||
		!strings.Contains(a.Cause, "increasing the capacity from 4 to 5") {
		t.Errorf("activity %+v", a)
	}
	p.do(p.SetDesiredCapacity("web", 2, false))
	p.clock.Advance(time.Minute)
	if got := p.group().Members; len(got) != 2 || got[0].Zone == got[1].Zone {
		t.Errorf("after shrinking %+v", got)
	}
}

// Earlier releases let clients change the tag that names an instance's group.
func TestAGroupReplacesAMemberWhoseTagIsGone(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	lost := p.group().Members[1]
	p.do(p.DeleteTags([]string{lost.ID}, map[string]*string{"aws:autoscaling:groupName": nil}))
	if _, err := p.TerminateInstances([]string{lost.ID}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 1})
	if slices.ContainsFunc(p.group().Members, func(m region.GroupMember) bool { return m.ID == lost.ID }) {
		t.Errorf("%s is still a member", lost.ID)
	}
}

// Earlier releases stored the launch template as the client named it.
func TestAGroupOfAnEarlierReleaseTellsBothNamesOfItsTemplate(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := newGroup(t, c, nil)
	template, err := p.LaunchTemplate("", "web")
	p.do(err)
	p.do(p.Close())
	db, err := bbolt.Open(filepath.Join(c.Dir, "us-west-2.db"), 0o600, nil)
	p.do(err)
	err = db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("auto-scaling-groups"))
		record := bytes.Replace(bucket.Get([]byte("web")), []byte(`{"ID":"`+template.ID+`","Name"`),
			[]byte(`{"ID":"","Name"`), 1)
		return bucket.Put([]byte("web"), record)
	})
	p.do(cmp.Or(err, db.Close()))
	c.Clock = p.clock
	p.place = open(t, c)
	want := region.TemplateRef{ID: template.ID, Name: "web", Version: "$Latest"}
	if got := p.group().Launch.Template; got != want {
		t.Errorf("template %+v, want %+v", got, want)
	}
}

func TestAGroupReplacesWhatEndsWithoutIt(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	lost := p.group().Members[1]
	if _, err := p.TerminateInstances([]string{lost.ID}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 1})
	if slices.ContainsFunc(p.group().Members, func(m region.GroupMember) bool { return m.ID == lost.ID }) {
		t.Error("the instance that ended is still a member")
	}
	causes := ""
	for _, a := range p.last(2) {
		causes += a.Cause
	}
	if !strings.Contains(causes, "in response to an EC2 health check") {
		t.Errorf("causes: %s", causes)
	}
	sick := p.group().Members[0]
	p.do(p.SetInstanceHealth(sick.ID, false, false))
	p.clock.Advance(time.Minute)
	if g := p.group(); len(g.Members) != 3 || slices.ContainsFunc(g.Members,
		func(m region.GroupMember) bool { return m.ID == sick.ID }) {
		t.Errorf("after an instance became unhealthy: %+v", g.Members)
	}
}

// Cluster Autoscaler removes a node with this call: no other instance may be launched in its place.
func TestAnInstanceIsTerminatedWithTheDesiredCapacityLowered(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	victim := p.group().Members[2]
	a, err := p.TerminateInstanceInAutoScalingGroup(victim.ID, true)
	if err != nil || !strings.Contains(a.Cause, "shrinking the capacity from 3 to 2") {
		t.Fatalf("%+v, %v", a, err)
	}
	p.clock.Advance(time.Minute)
	if g := p.group(); g.Desired != 2 || len(g.Members) != 2 || p.state(victim.ID) != region.Terminated {
		t.Errorf("desired %d, members %v", g.Desired, p.members())
	}
	_, err = p.TerminateInstanceInAutoScalingGroup(victim.ID, true)
	wantCode(t, err, "ValidationError")
	p.do(p.UpdateAutoScalingGroup("web", func(s *region.GroupSettings) error { s.Min = 2; return nil }))
	_, err = p.TerminateInstanceInAutoScalingGroup(p.group().Members[0].ID, true)
	wantCode(t, err, "ValidationError")
}

func TestALaunchThatFailsIsAFailedActivityAndTriedAgain(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) { s.Subnets, s.Desired = s.Subnets[:1], 0 })
	pool := region.Pool{Type: "m5.large", Zone: p.zone(0), CapacityType: region.OnDemand}
	p.do(p.SetCapacity(pool, 1))
	p.do(p.SetDesiredCapacity("web", 3, false))
	p.clock.Advance(2 * time.Second)
	if a := p.last(1)[0]; a.Status != region.ActivityFailed || !strings.Contains(a.Message, "sufficient m5.large capacity") {
		t.Errorf("activity %+v", a)
	}
	p.clock.Advance(5 * time.Minute)
	all, _ := p.ScalingActivities("web")
	if n := len(all); n < 4 || n > 10 {
		t.Errorf("%d activities in five minutes: the attempts must become rarer", n)
	}
	p.do(p.SetCapacity(pool, 5))
	p.clock.Advance(5 * time.Minute)
	p.wantMembers(map[string]int{"a InService": 3})
}

// A subnet can be deleted although a group names it. The group launches in its remaining subnets; once none is left,
// its launches fail.
func TestAGroupOutlivesItsSubnets(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := newGroup(t, c, func(s *region.GroupSettings) { s.Desired = 0 })
	var subnets []string
	for i, cidr := range []string{"10.250.0.0/28", "10.250.0.16/28"} {
		s, err := p.CreateSubnet(region.SubnetRequest{Zone: p.zone(i), CIDR: netip.MustParsePrefix(cidr)})
		p.do(err)
		subnets = append(subnets, s.ID)
	}
	own := p.group().Subnets
	p.do(p.UpdateAutoScalingGroup("web", func(s *region.GroupSettings) error {
		s.Desired, s.Subnets = 2, subnets
		return nil
	}))
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1})
	lose := func(zone, subnet string) {
		t.Helper()
		p.do(p.SuspendProcesses("web", []string{"Launch"}))
		for _, m := range p.group().Members {
			if m.Zone == zone {
				_, err := p.TerminateInstances([]string{m.ID})
				p.do(err)
			}
		}
		p.clock.Advance(time.Minute)
		p.do(p.DeleteSubnet(subnet))
		p.do(p.ResumeProcesses("web", nil))
	}
	lose(p.zone(0), subnets[0])
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"b InService": 2})
	before := p.group().Members
	p.clock.Advance(time.Hour)
	if after := p.group().Members; fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("an hour later the members are %v, were %v", after, before)
	}

	lose(p.zone(1), subnets[1])
	p = grouped{p.crash(c)}
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{})
	if a := p.last(1)[0]; a.Status != region.ActivityFailed || !strings.Contains(a.Message, "None of the subnets") {
		t.Errorf("without a subnet: %+v", a)
	}
	p.do(p.SetDesiredCapacity("web", 3, false))
	p.do(p.UpdateAutoScalingGroup("web", func(s *region.GroupSettings) error { s.Subnets = own; return nil }))
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 1})
}

func TestAnotherZoneHelpsOutAndIsRelievedLater(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) { s.Desired = 0 })
	dry := region.Pool{Type: "m5.large", Zone: p.zone(2), CapacityType: region.OnDemand}
	p.do(p.SetCapacity(dry, 0))
	p.do(p.SetDesiredCapacity("web", 6, false))
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 3, "b InService": 3})

	p.do(p.SetCapacity(dry, 10))
	p.clock.Advance(30 * time.Minute)
	p.wantMembers(map[string]int{"a InService": 2, "b InService": 2, "c InService": 2})

	p.do(p.SuspendProcesses("web", []string{"AZRebalance"}))
	for _, m := range p.group().Members {
		if m.Zone == p.zone(0) {
			_, err := p.TerminateInstanceInAutoScalingGroup(m.ID, true)
			p.do(err)
		}
	}
	p.clock.Advance(time.Hour)
	p.wantMembers(map[string]int{"b InService": 2, "c InService": 2})
	p.do(p.ResumeProcesses("web", nil))
	p.clock.Advance(time.Hour)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 2})
}

func TestAMixedGroupHasItsShareOnDemand(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) {
		s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
			Template:     s.Launch.Template,
			Overrides:    []region.GroupOverride{{InstanceType: "m5.xlarge"}, {InstanceType: "m5.large"}, {InstanceType: "c5.large"}},
			OnDemandBase: 2, OnDemandPercentage: 25, OnDemandStrategy: region.Prioritized, SpotStrategy: region.LowestPrice,
			SpotPools: 2,
		}}
		s.Desired = 10
	})
	p.clock.Advance(time.Minute)
	count := map[string]int{}
	for _, m := range p.group().Members {
		count[m.CapacityType]++
		if m.CapacityType == region.OnDemand && m.Type != "m5.xlarge" {
			t.Errorf("on demand it launched %s, not the first override", m.Type)
		}
		if m.CapacityType == region.Spot && m.Type == "m5.xlarge" {
			t.Errorf("on spot it launched the dearest")
		}
	}
	if count[region.OnDemand] != 4 || count[region.Spot] != 6 {
		t.Errorf("%v, want the base of 2 and a quarter of the other 8 on demand", count)
	}
	p.do(p.SetDesiredCapacity("web", 6, false))
	p.clock.Advance(time.Minute)
	count = map[string]int{}
	for _, m := range p.group().Members {
		count[m.CapacityType]++
	}
	if count[region.OnDemand] != 3 || count[region.Spot] != 3 {
		t.Errorf("%v after shrinking to 6, want the same shares", count)
	}
}

func TestWeightsAndRequirements(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) {
		s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
			Template: s.Launch.Template, Overrides: []region.GroupOverride{{Requirements: &region.InstanceRequirements{
				VCPUs: region.Range{Min: 4, Max: 4}, MemoryMiB: region.Range{Min: 16384, Max: 16384},
				CPUManufacturers: []string{"amd"}, Excluded: []string{"m6a*"},
			}, Weight: 4}},
			OnDemandPercentage: 100, OnDemandStrategy: region.LowestPrice, SpotStrategy: region.PriceCapacityOptimized,
		}}
		s.Desired = 8
	})
	p.clock.Advance(time.Minute)
	members := p.group().Members
	if len(members) != 2 {
		t.Fatalf("%d members of weight 4 for a capacity of 8", len(members))
	}
	for _, m := range members {
		if o, ok := p.Type(m.Type), true; !ok || o.VCPU != 4 || o.MemoryMiB != 16384 || o.CPUManufacturer != "amd" ||
			strings.HasPrefix(m.Type, "m6a") || o.Burstable {
			t.Errorf("it launched %s", m.Type)
		}
	}
	p.clock.Advance(30 * time.Minute) // one instance in each of two zones is as balanced as possible
	if after := p.group().Members; fmt.Sprint(after) != fmt.Sprint(members) {
		t.Errorf("half an hour later the members are %v, were %v", after, members)
	}
	_, err := p.StartInstanceRefresh("web", region.InstanceRefresh{MinHealthy: 90, MaxHealthy: 100})
	p.do(err)
	p.clock.Advance(10 * time.Minute)
	if g := p.group(); g.Refreshes[0].Status != region.RefreshSuccessful || len(g.Members) != 2 {
		t.Errorf("refresh %+v, members %v", g.Refreshes[0], p.members())
	}
	if got := p.InstanceTypesMatching(region.InstanceRequirements{
		VCPUs: region.Range{Max: 2}, MemoryMiB: region.Range{Max: 4096}, Allowed: []string{"c5*.large", "t3.medium"},
	}, "x86_64"); !slices.Contains(got, "c5.large") || slices.Contains(got, "t3.medium") {
		t.Errorf("matching types %v: burstable types must be asked for", got)
	}
}

func TestHooksHoldInstancesUntilSomebodyAnswers(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) { s.Desired = 0 })
	hook := region.LifecycleHook{
		Name: "drain", Transition: region.TransitionTerminating, Heartbeat: time.Minute, DefaultResult: region.HookContinue,
	}
	p.do(p.PutLifecycleHook("web", hook))
	hook.Name, hook.Transition, hook.DefaultResult = "setup", region.TransitionLaunching, region.HookAbandon
	p.do(p.PutLifecycleHook("web", hook))
	p.do(p.SetDesiredCapacity("web", 1, false))
	p.clock.Advance(30 * time.Second)
	p.wantMembers(map[string]int{"a Pending:Wait": 1})
	id := p.group().Members[0].ID
	p.do(p.RecordLifecycleActionHeartbeat("web", "setup", "", id))
	p.clock.Advance(45 * time.Second)
	p.wantMembers(map[string]int{"a Pending:Wait": 1})
	p.do(p.CompleteLifecycleAction("web", "setup", "", id, region.HookContinue))
	p.clock.Advance(5 * time.Second)
	p.wantMembers(map[string]int{"a InService": 1})

	p.do(p.SetDesiredCapacity("web", 0, false))
	p.clock.Advance(30 * time.Second)
	p.wantMembers(map[string]int{"a Terminating:Wait": 1})
	if p.state(id) != region.Running {
		t.Errorf("while the hook waits the instance is %s", p.state(id))
	}
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{})

	p.do(p.SetDesiredCapacity("web", 1, false)) // nobody completes the hook: this instance and the next are abandoned
	p.clock.Advance(90 * time.Second)
	all := p.last(4)
	if !slices.ContainsFunc(all, func(a region.Activity) bool { return a.Status == region.ActivityFailed }) {
		t.Errorf("nobody answered, and there is no failed activity: %+v", all)
	}
	wantCode(t, p.CompleteLifecycleAction("web", "setup", "", "i-0", region.HookContinue), "ValidationError")
}

func TestAHeartbeatDoesNotChangeACopyOfTheGroup(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.do(p.PutLifecycleHook("web", region.LifecycleHook{
		Name: "ready", Transition: region.TransitionLaunching, Heartbeat: time.Minute,
	}))
	p.clock.Advance(10 * time.Second)
	m := p.group().Members[0]
	before := m.Waits[0].Until
	p.clock.Advance(10 * time.Second)
	p.do(p.RecordLifecycleActionHeartbeat("web", "ready", m.Waits[0].Token, ""))
	if after := p.group().Members[0].Waits[0].Until; !m.Waits[0].Until.Equal(before) || !after.After(before) {
		t.Errorf("the copy says %s, the group %s; before the heartbeat it was %s", m.Waits[0].Until, after, before)
	}
}

func TestAnInstanceRefreshReplacesAllWithoutALossOfCapacity(t *testing.T) {
	for _, c := range []struct{ least, most, atLeast, atMost int }{{90, 100, 5, 6}, {100, 150, 6, 9}, {50, 100, 3, 6}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			p := newGroup(t, region.Config{}, func(s *region.GroupSettings) { s.Desired = 6 })
			p.clock.Advance(time.Minute)
			old := p.group().Members
			_, _, err := p.CreateLaunchTemplateVersion("", "web", "1", region.TemplateData{InstanceType: "c5.large"})
			p.do(err)
			_, err = p.StartInstanceRefresh("web", region.InstanceRefresh{
				MinHealthy: c.least, MaxHealthy: c.most, Warmup: 5 * time.Second, Skip: true,
			})
			p.do(err)
			_, err = p.StartInstanceRefresh("web", region.InstanceRefresh{MinHealthy: 90, MaxHealthy: 100})
			wantCode(t, err, "InstanceRefreshInProgress")
			fewest, most := 6, 6
			for range 600 {
				p.clock.Advance(time.Second)
				serving, all := 0, 0
				for _, m := range p.group().Members {
					if m.Lifecycle == region.LifecycleInService {
						serving++
					}
					if !strings.HasPrefix(m.Lifecycle, "Terminating") {
						all++
					}
				}
				fewest, most = min(fewest, serving), max(most, all)
			}
			g := p.group()
			if g.Refreshes[0].Status != region.RefreshSuccessful || len(g.Members) != 6 {
				t.Errorf("refresh %+v, members %v", g.Refreshes[0], p.members())
			}
			for _, m := range g.Members {
				if m.Type != "c5.large" || m.Template.Version != "2" ||
					slices.ContainsFunc(old, func(x region.GroupMember) bool { return x.ID == m.ID }) {
					t.Errorf("%s is a %s of version %s", m.ID, m.Type, m.Template.Version)
				}
			}
			if fewest < c.atLeast || most > c.atMost {
				t.Errorf("between %d in service and %d in all, want %d to %d", fewest, most, c.atLeast, c.atMost)
			}
			_, err = p.StartInstanceRefresh("web", region.InstanceRefresh{MinHealthy: 90, MaxHealthy: 100, Skip: true})
			p.do(err)
			p.clock.Advance(time.Minute)
			if g := p.group(); g.Refreshes[0].Status != region.RefreshSuccessful || len(g.Refreshes[0].Targets) != 0 {
				t.Errorf("a refresh of what already matches: %+v", g.Refreshes[0])
			}
		})
	}
}

func TestStandbyDetachingAndAttaching(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	id := p.group().Members[0].ID
	_, err := p.EnterStandby("web", []string{id}, true)
	p.do(err)
	p.clock.Advance(time.Minute)
	if g := p.group(); g.Desired != 2 || len(g.Members) != 3 {
		t.Errorf("with one in standby: desired %d, %v", g.Desired, p.members())
	}
	_, err = p.ExitStandby("web", []string{id})
	p.do(err)
	p.clock.Advance(time.Minute)
	p.wantMembers(map[string]int{"a InService": 1, "b InService": 1, "c InService": 1})

	_, err = p.DetachInstances("web", []string{id}, false)
	p.do(err)
	p.clock.Advance(time.Minute)
	if g := p.group(); len(g.Members) != 3 || p.state(id) != region.Running {
		t.Errorf("another took no place of the detached: %v, it is %s", p.members(), p.state(id))
	}
	p.do(p.AttachInstances("web", []string{id}))
	p.clock.Advance(time.Minute)
	if g := p.group(); g.Desired != 4 || len(g.Members) != 4 {
		t.Errorf("attached: desired %d, %v", g.Desired, p.members())
	}
	wantCode(t, p.AttachInstances("web", []string{id}), "ValidationError")
}

func TestAnInstanceThatACallNamesTwiceIsMovedOnce(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	id := p.group().Members[0].ID
	twice := []string{id, id}
	for _, step := range []struct {
		name             string
		call             func() error
		desired, members int
	}{
		{"EnterStandby", func() error { _, err := p.EnterStandby("web", twice, true); return err }, 2, 3},
		{"ExitStandby", func() error { _, err := p.ExitStandby("web", twice); return err }, 3, 3},
		{"DetachInstances", func() error { _, err := p.DetachInstances("web", twice, true); return err }, 2, 2},
		{"AttachInstances", func() error { return p.AttachInstances("web", twice) }, 3, 3},
	} {
		p.do(step.call())
		p.clock.Advance(time.Minute)
		if g := p.group(); g.Desired != step.desired || len(g.Members) != step.members {
			t.Errorf("%s: desired %d with %d members, want %d with %d", step.name, g.Desired, len(g.Members), step.desired,
				step.members)
		}
	}
}

func TestTerminationPoliciesAndProtection(t *testing.T) {
	for policy, want := range map[string]int{"OldestInstance": 0, "NewestInstance": 3} {
		p := newGroup(t, region.Config{}, func(s *region.GroupSettings) {
			s.Desired, s.Subnets, s.TerminationPolicies = 0, s.Subnets[:1], []string{policy}
		})
		var ids []string
		for n := range 4 {
			p.do(p.SetDesiredCapacity("web", n+1, false))
			p.clock.Advance(time.Minute)
			ids = append(ids, p.group().Members[n].ID)
		}
		p.do(p.SetDesiredCapacity("web", 3, false))
		p.clock.Advance(time.Minute)
		if p.state(ids[want]) != region.Terminated {
			t.Errorf("%s did not end instance %d", policy, want)
		}
		var left []string
		for _, m := range p.group().Members {
			left = append(left, m.ID)
		}
		p.do(p.SetInstanceProtection("web", left, true))
		p.do(p.SetDesiredCapacity("web", 0, false))
		p.clock.Advance(time.Minute)
		if n := len(p.group().Members); n != 3 {
			t.Errorf("%d of 3 protected instances are left", n)
		}
	}
}

func TestSpotMembersAtRiskAreReplacedBeforeTheyEnd(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) {
		s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
			Template: s.Launch.Template, OnDemandStrategy: region.Prioritized, SpotStrategy: region.CapacityOptimized,
		}}
		s.CapacityRebalance, s.Desired = true, 2
	})
	p.clock.Advance(time.Minute)
	risky := p.group().Members[0].ID
	p.do(p.Interrupt(risky))
	for range 240 {
		p.clock.Advance(500 * time.Millisecond)
		serving := 0
		for _, m := range p.group().Members {
			if m.Lifecycle == region.LifecycleInService {
				serving++
			}
		}
		if serving < 2 {
			t.Fatalf("%d instances in service while one is being replaced", serving)
		}
	}
	if g := p.group(); len(g.Members) != 2 || p.state(risky) != region.Terminated {
		t.Errorf("members %v, the instance at risk is %s", p.members(), p.state(risky))
	}
}

func TestAGroupReplacesWhatFailsAStatusCheckAfterItsGracePeriod(t *testing.T) {
	for _, check := range []string{"instance", "system"} {
		p := newGroup(t, region.Config{}, func(s *region.GroupSettings) { s.HealthCheckGrace = 5 * time.Minute })
		p.clock.Advance(time.Minute)
		id := p.group().Members[0].ID
		p.do(p.Impair(id, check, 0))
		p.clock.Advance(time.Minute)
		if p.state(id) != region.Running {
			t.Errorf("%s check: in the grace period it is %s", check, p.state(id))
		}
		p.clock.Advance(4 * time.Minute)
		if g := p.group(); p.state(id) != region.Terminated || len(g.Members) != 3 || !strings.Contains(
			p.last(2)[1].Cause, "EC2 health check") {
			t.Errorf("%s check: it is %s in %v, %+v", check, p.state(id), p.members(), p.last(2))
		}
	}
}

func TestARebalancingGroupReplacesASpotInstanceWhenEC2RecommendsIt(t *testing.T) {
	p := newGroup(t, region.Config{}, func(s *region.GroupSettings) {
		s.CapacityRebalance, s.Launch = true, region.GroupLaunch{Mixed: &region.MixedInstances{
			Template: region.TemplateRef{Name: "web"}, OnDemandStrategy: region.Prioritized,
			SpotStrategy: region.PriceCapacityOptimized,
		}}
	})
	p.clock.Advance(time.Minute)
	id := p.group().Members[0].ID
	p.do(p.Rebalance(id))
	p.clock.Advance(time.Minute)
	if g := p.group(); p.state(id) != region.Terminated || len(g.Members) != 3 {
		t.Errorf("it is %s in %v", p.state(id), p.members())
	}
}

func TestADeletedGroupEndsItsInstances(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	_, err := p.EnterStandby("web", []string{p.group().Members[0].ID}, true)
	p.do(err)
	wantCode(t, p.DeleteAutoScalingGroup("web", false), "ResourceInUse")
	p.do(p.DeleteAutoScalingGroup("web", true))
	wantCode(t, p.SetDesiredCapacity("web", 1, false), "ScalingActivityInProgress")
	p.clock.Advance(time.Minute)
	if n := len(p.AutoScalingGroups()); n != 0 {
		t.Errorf("%d groups", n)
	}
	for _, i := range p.Instances() {
		if i.State != region.Terminated {
			t.Errorf("%s is %s", i.ID, i.State)
		}
	}
	wantCode(t, p.DeleteAutoScalingGroup("web", true), "ValidationError")
}

func TestAForcedDeletionDoesNotWaitForHooks(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	p.clock.Advance(time.Minute)
	p.do(p.PutLifecycleHook("web", region.LifecycleHook{
		Name: "drain", Transition: region.TransitionTerminating, Heartbeat: time.Hour,
	}))
	p.do(p.PutLifecycleHook("web", region.LifecycleHook{
		Name: "setup", Transition: region.TransitionLaunching, Heartbeat: time.Hour,
	}))
	_, err := p.TerminateInstanceInAutoScalingGroup(p.group().Members[0].ID, false)
	p.do(err)
	p.clock.Advance(time.Minute)
	if got := p.members(); !slices.Contains(slices.Collect(maps.Keys(got)), "a Terminating:Wait") || len(got) != 4 {
		t.Fatalf("members %v", got)
	}
	p.do(p.DeleteAutoScalingGroup("web", true))
	p.clock.Advance(time.Minute)
	if n := len(p.AutoScalingGroups()); n != 0 {
		t.Errorf("%d groups", n)
	}
	for _, i := range p.Instances() {
		if i.State != region.Terminated {
			t.Errorf("%s is %s", i.ID, i.State)
		}
	}
}

func TestAGroupGoesOnAfterACrash(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := newGroup(t, c, nil)
	p.clock.Advance(time.Minute)
	ended := p.group().Members[0].ID
	if _, err := p.TerminateInstances([]string{ended}); err != nil {
		t.Fatal(err)
	}
	p.do(p.SetDesiredCapacity("web", 5, false))
	before, _ := p.ScalingActivities("web")
	q := grouped{p.crash(c)}
	if after, _ := q.ScalingActivities("web"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("activities after the crash\n%v\nbefore\n%v", after, before)
	}
	q.clock.Advance(time.Minute)
	if g := q.group(); len(g.Members) != 5 || q.state(ended) != region.Terminated {
		t.Errorf("after the crash: %v", q.members())
	}
}

func TestWrongSettingsAreRefusedByTheirNames(t *testing.T) {
	p := newGroup(t, region.Config{}, nil)
	good := p.group().GroupSettings
	for text, change := range map[string]func(*region.GroupSettings){
		"Max bound, 1, must be greater":       func(s *region.GroupSettings) { s.Min, s.Max = 2, 1 },
		"Desired capacity:13 must be between": func(s *region.GroupSettings) { s.Desired = 13 },
		"VPC Subnet is required":              func(s *region.GroupSettings) { s.Subnets = nil },
		"subnet ID 'subnet-0' does not exist": func(s *region.GroupSettings) { s.Subnets = []string{"subnet-0"} },
		"either launchTemplate":               func(s *region.GroupSettings) { s.Launch = region.GroupLaunch{} },
		"fully-formed launch template": func(s *region.GroupSettings) {
			s.Launch.Template = region.TemplateRef{Name: "none"}
		},
		"template version 7":        func(s *region.GroupSettings) { s.Launch.Template.Version = "7" },
		"Termination policy 'Whim'": func(s *region.GroupSettings) { s.TerminationPolicies = []string{"Whim"} },
		"Launch configuration name not found": func(s *region.GroupSettings) {
			s.Launch = region.GroupLaunch{Configuration: "none"}
		},
		"value 'zz9.large' for InstanceType": func(s *region.GroupSettings) {
			s.Launch = region.GroupLaunch{Mixed: &region.MixedInstances{
				Template: s.Launch.Template, Overrides: []region.GroupOverride{{InstanceType: "zz9.large"}},
				OnDemandStrategy: region.Prioritized, SpotStrategy: region.LowestPrice,
			}}
		},
	} {
		want := good
		change(&want)
		err := p.CreateAutoScalingGroup("other", want, nil, nil)
		wantCode(t, err, "ValidationError")
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want it to say %q", err, text)
		}
	}
	wantCode(t, p.CreateAutoScalingGroup("web", good, nil, nil), "AlreadyExists")
	wantCode(t, p.SetDesiredCapacity("web", 13, false), "ValidationError")
	wantCode(t, p.SetDesiredCapacity("none", 1, false), "ValidationError")
}
