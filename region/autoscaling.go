package region

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// AutoScalingGroup is a group of EC2 Auto Scaling. Methods return copies, whose maps and slices must not be changed.
type AutoScalingGroup struct {
	Name, ARN string
	GroupSettings
	Zones     []string // of the subnets
	CreatedAt time.Time
	Tags      []GroupTag
	Suspended map[string]string `json:",omitempty"` // why, by process
	Members   []GroupMember     `json:",omitempty"`
	Hooks     []LifecycleHook   `json:",omitempty"`
	Refreshes []InstanceRefresh `json:",omitempty"` // newest first
	Deleting  bool              `json:",omitempty"`
}

// GroupSettings are what CreateAutoScalingGroup sets and UpdateAutoScalingGroup changes.
type GroupSettings struct {
	Min, Max, Desired   int // in units of weight; in instances if no override has a weight
	Launch              GroupLaunch
	Subnets             []string
	Cooldown            time.Duration
	HealthCheckGrace    time.Duration
	HealthCheckType     string
	DefaultWarmup       *time.Duration `json:",omitempty"` // of refreshes; nil means HealthCheckGrace
	DeletionProtection  string         `json:",omitempty"` // PreventForceDeletion, PreventAllDeletion, none or ""
	MaxLifetime         time.Duration  // after which an instance is replaced; 0 means never
	TerminationPolicies []string
	ProtectNew          bool // new instances are protected from scale-in
	CapacityRebalance   bool // spot instances at risk are replaced before they are interrupted
}

// Deletion protections that refuse DeleteAutoScalingGroup: with ForceDelete, or always.
const (
	PreventForceDeletion = "prevent-force-deletion"
	PreventAllDeletion   = "prevent-all-deletion"
)

// GroupLaunch specifies what a group launches: exactly one of its fields is set.
type GroupLaunch struct {
	Configuration string      `json:",omitempty"` // name of a launch configuration
	Template      TemplateRef `json:",omitzero"`
	Mixed         *MixedInstances
}

// TemplateRef names a version of a launch template: a number, $Latest, $Default or "" (the default).
type TemplateRef struct{ ID, Name, Version string }

// MixedInstances is a mixed instances policy.
type MixedInstances struct {
	Template           TemplateRef
	Overrides          []GroupOverride
	OnDemandBase       int
	OnDemandPercentage int    // above the base
	OnDemandStrategy   string // Prioritized or LowestPrice
	SpotStrategy       string
	SpotPools          int   // for LowestPrice
	SpotMaxPriceMicros int64 // per hour; 0 means the on-demand price
}

// GroupOverride is one override of a mixed instances policy.
type GroupOverride struct {
	InstanceType string
	Requirements *InstanceRequirements // in place of InstanceType
	Weight       int                   // units of capacity; 0 means 1
	Template     TemplateRef           // in place of the policy's
	ImageID      string
}

// GroupTag is a tag of a group.
type GroupTag struct {
	Key, Value string
	Propagate  bool // to instances, at their launch
}

// GroupMember is an instance as seen by its group.
type GroupMember struct {
	ID, Type, ImageID  string
	Zone, CapacityType string
	Lifecycle          string      // a state such as LifecycleInService
	Template           TemplateRef `json:",omitzero"` // launched from this; its version is a number
	Configuration      string      `json:",omitempty"`
	Weight             int
	JoinedAt           time.Time
	Unhealthy          bool       `json:",omitempty"`
	Protected          bool       `json:",omitempty"` // from scale-in
	Leaving            bool       `json:",omitempty"` // terminated once its replacement is in service
	Waits              []HookWait `json:",omitempty"`
	Activity           string     `json:",omitempty"` // the one in progress
}

// States of a group's members (EC2 Auto Scaling user guide, "Instance lifecycle").
const (
	LifecyclePending         = "Pending"
	LifecyclePendingWait     = "Pending:Wait"
	LifecyclePendingProceed  = "Pending:Proceed"
	LifecycleInService       = "InService"
	LifecycleTerminating     = "Terminating"
	LifecycleTerminatingWait = "Terminating:Wait"
	LifecycleStandby         = "Standby"
)

// pending reports whether a member is being launched and not yet in service.
func (m *GroupMember) pending() bool { return strings.HasPrefix(m.Lifecycle, LifecyclePending) }

// terminating reports whether a member is being terminated.
func (m *GroupMember) terminating() bool { return strings.HasPrefix(m.Lifecycle, LifecycleTerminating) }

// counts reports whether a member is part of its group's capacity.
func (m *GroupMember) counts() bool {
	return !m.terminating() && !m.Leaving && m.Lifecycle != LifecycleStandby
}

// capacity returns the group's current capacity in units of weight.
func (g *AutoScalingGroup) capacity() int {
	total := 0
	for i := range g.Members {
		if g.Members[i].counts() {
			total += g.Members[i].Weight
		}
	}
	return total
}

func (g *AutoScalingGroup) member(id string) *GroupMember {
	i := slices.IndexFunc(g.Members, func(m GroupMember) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

func (g *AutoScalingGroup) runs(process string) bool {
	_, suspended := g.Suspended[process]
	return !suspended
}

// group is the record of a group.
type group struct {
	AutoScalingGroup
	RetryAt      time.Time            // time of the next launch attempt after a failure
	Failures     int                  // consecutive failed launches
	ChangedAt    time.Time            // last activity or change of capacity
	CoolsUntil   time.Time            // end of the cooldown
	ZoneFailedAt map[string]time.Time // last failed launch, by zone
	Cause        string               // of the last change of capacity, for the activities that follow from it

	timer clock.Timer
	due   time.Time // of the timer
}

// groupRecords holds the records that all parts of EC2 Auto Scaling share.
type groupRecords struct {
	*core
	groups         map[string]*group // by name
	configurations map[string]*LaunchConfiguration
	activities     map[string][]*Activity // by group, oldest first
	settle         func(*group)
}

// autoScaling is EC2 Auto Scaling: groups of instances that keep their desired capacity.
type autoScaling struct {
	*groupRecords
	launches  *groupLaunches
	hooks     *groupHooks
	instances *instances
	network   *network
}

func newAutoScaling(l *launcher, q *queues) *autoScaling {
	r := &groupRecords{
		core: l.core, groups: map[string]*group{}, configurations: map[string]*LaunchConfiguration{},
		activities: map[string][]*Activity{},
	}
	h := &groupHooks{groupRecords: r, instances: l.instances, queues: q, hooked: make(chan struct{})}
	s := &autoScaling{
		groupRecords: r, launches: &groupLaunches{groupRecords: r, launcher: l, hooks: h}, hooks: h,
		instances: l.instances, network: l.network,
	}
	r.settle, l.instances.changed = s.settleGroup, s.instanceChanged
	return s
}

// groupTag is the tag that holds the name of an instance's group.
const groupTag = "aws:autoscaling:groupName"

// instanceChanged schedules a settle of the instance's group now.
func (s *autoScaling) instanceChanged(i *instance) {
	if g, _, err := s.ofInstance(i.ID); err == nil {
		s.look(g, s.clock.Now())
	}
}

// look schedules the group to settle at a time, unless it is already scheduled earlier.
func (s *groupRecords) look(g *group, at time.Time) {
	if s.closed || (g.timer != nil && !g.due.After(at)) {
		return
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.due = at
	g.timer = s.clock.AfterFunc(at.Sub(s.clock.Now()), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.groups[g.Name] != g {
			return
		}
		g.timer = nil
		s.settle(g)
		s.commitBackground("auto scaling group", g.Name)
	})
}

// resume sorts restored activities by their start and schedules restored groups to settle. Earlier releases stored
// launch templates by ID or name alone.
func (s *autoScaling) resume() {
	for _, list := range s.activities {
		slices.SortFunc(list, func(a, b *Activity) int { return cmp.Compare(a.Sequence, b.Sequence) })
	}
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		g.Launch = s.launches.named(g.Launch)
		s.look(g, s.clock.Now())
	}
}

func (s *autoScaling) stopTimers() {
	for _, g := range s.groups {
		if g.timer != nil {
			g.timer.Stop()
		}
	}
}

func (s *groupRecords) save(g *group) { s.store.put(bucketGroups, g.Name, g) }

// find finds a group by name.
func (s *groupRecords) find(name string) (*group, error) {
	if g := s.groups[name]; g != nil {
		return g, nil
	}
	return nil, apiError("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup '%s' not found", name)
}

// findLiving finds a group that is not being deleted.
func (s *groupRecords) findLiving(name string) (*group, error) {
	g, err := s.find(name)
	if err == nil && g.Deleting {
		err = apiError("ScalingActivityInProgress", "The group %s is being deleted", name)
	}
	return g, err
}

// ofInstance finds an instance's group and its member record there.
func (s *groupRecords) ofInstance(id string) (*group, *GroupMember, error) {
	for _, g := range s.groups {
		if m := g.member(id); m != nil {
			return g, m, nil
		}
	}
	return nil, nil, apiError("ValidationError",
		"Instance Id not found - No managed instance found for instance ID: %s", id)
}

// AutoScalingGroups returns all groups, by name. It omits instances younger than Config.DescribeLag.
func (s *groupRecords) AutoScalingGroups() []AutoScalingGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.clock.Now().Add(-s.config.DescribeLag)
	out := make([]AutoScalingGroup, 0, len(s.groups))
	for _, g := range s.groups {
		shown := g.AutoScalingGroup
		shown.Members = slices.DeleteFunc(slices.Clone(g.Members),
			func(m GroupMember) bool { return m.JoinedAt.After(known) })
		for i := range shown.Members {
			shown.Members[i].Waits = slices.Clone(shown.Members[i].Waits) // heartbeats change them
		}
		shown.Tags, shown.Hooks = slices.Clone(g.Tags), slices.Clone(g.Hooks)
		shown.Refreshes, shown.Suspended = slices.Clone(g.Refreshes), maps.Clone(g.Suspended)
		out = append(out, shown)
	}
	slices.SortFunc(out, func(a, b AutoScalingGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// autoScalingARN returns the ARN of a new Auto Scaling resource.
func (s *groupRecords) autoScalingARN(kind, name string) string {
	return fmt.Sprintf("arn:aws:autoscaling:%s:%s:%s:%s:%[3]sName/%s", s.config.Name, AccountID, kind, s.newUUID(), name)
}

// newUUID returns a new ID in the form of a UUID.
func (s *groupRecords) newUUID() string {
	sum := sha256.Sum256([]byte(s.newID()))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
