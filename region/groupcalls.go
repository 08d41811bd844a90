package region

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Quotas of EC2 Auto Scaling (AWS's defaults, "Quotas for Amazon EC2 Auto Scaling").
const (
	maxGroups         = 500
	maxConfigurations = 200
	maxGroupTags      = 50
)

// CreateAutoScalingGroup creates a group, which then launches its desired capacity.
func (s *autoScaling) CreateAutoScalingGroup(
	name string, want GroupSettings, tags []GroupTag, hooks []LifecycleHook,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.create(name, want, tags, hooks); err != nil {
		return err
	}
	return s.commit()
}

func (s *autoScaling) create(name string, want GroupSettings, tags []GroupTag, hooks []LifecycleHook) error {
	switch {
	case name == "" || len(name) > 255 || strings.ContainsAny(name, ":\n"):
		return apiError("ValidationError", "AutoScalingGroupName '%s' must have 1 to 255 characters, none of them a colon",
			name)
	case s.groups[name] != nil:
		return apiError("AlreadyExists",
			"AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
	case len(s.groups) >= maxGroups:
		return apiError("LimitExceeded", "You have reached the limit of %d Auto Scaling groups", maxGroups)
	}
	if err := s.check(want); err != nil {
		return err
	}
	want.Launch = s.launches.named(want.Launch)
	now := s.clock.Now()
	g := &group{AutoScalingGroup: AutoScalingGroup{
		Name: name, ARN: s.autoScalingARN("autoScalingGroup", name), GroupSettings: want,
		Zones: s.zonesOf(want.Subnets), CreatedAt: now,
	}, ChangedAt: now, ZoneFailedAt: map[string]time.Time{}}
	if err := g.tag(tags); err != nil {
		return err
	}
	for _, h := range hooks {
		if err := g.addHook(h); err != nil {
			return err
		}
	}
	s.groups[name] = g
	g.Cause = causeOf(now, "a user request created an AutoScalingGroup", g, 0)
	s.save(g)
	s.look(g, now.Add(groupDelay))
	return nil
}

// check returns an error if a group's settings are invalid.
func (s *autoScaling) check(want GroupSettings) error {
	switch {
	case want.Min < 0 || want.Max < 0 || want.Desired < 0:
		return apiError("ValidationError", "MinSize, MaxSize and DesiredCapacity must not be negative")
	case want.Min > want.Max:
		return apiError("ValidationError", "Max bound, %d, must be greater than or equal to min bound, %d", want.Max,
			want.Min)
	case want.Desired < want.Min || want.Desired > want.Max:
		return apiError("ValidationError", "Desired capacity:%d must be between the specified min size:%d and max size:%d",
			want.Desired, want.Min, want.Max)
	case len(want.Subnets) == 0:
		return apiError("ValidationError", "At least one Availability Zone or VPC Subnet is required.")
	case want.MaxLifetime != 0 && (want.MaxLifetime < 24*time.Hour || want.MaxLifetime > 365*24*time.Hour):
		return apiError("ValidationError", "MaxInstanceLifetime must be 0 or between 86400 and 31536000 seconds")
	}
	for _, id := range want.Subnets {
		if s.network.subnet(id) == nil {
			return apiError("ValidationError", "The subnet ID '%s' does not exist", id)
		}
	}
	for _, p := range want.TerminationPolicies {
		if !slices.Contains(TerminationPolicies, p) {
			return apiError("ValidationError", "Termination policy '%s' is not one of %v", p, TerminationPolicies)
		}
	}
	return s.launches.checkLaunch(want)
}

// UpdateAutoScalingGroup changes a group's settings. Unless change sets the desired capacity, it is clamped to the
// new bounds.
func (s *autoScaling) UpdateAutoScalingGroup(name string, change func(*GroupSettings) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.findLiving(name)
	if err != nil {
		return err
	}
	want := g.GroupSettings
	if err := change(&want); err != nil {
		return err
	}
	if want.Desired == g.Desired {
		want.Desired = max(min(want.Desired, want.Max), want.Min)
	}
	if err := s.check(want); err != nil {
		return err
	}
	want.Launch = s.launches.named(want.Launch)
	s.set(g, want, "a user request update of AutoScalingGroup constraints to")
	return s.commit()
}

// set applies new settings to a group.
func (s *autoScaling) set(g *group, want GroupSettings, why string) {
	before, now := g.Desired, s.clock.Now()
	g.GroupSettings, g.Zones = want, s.zonesOf(want.Subnets)
	if before != g.Desired {
		g.Cause = causeOf(now, why, g, before)
		g.CoolsUntil = now.Add(g.Cooldown)
	}
	g.RetryAt, g.Failures, g.ChangedAt = time.Time{}, 0, now
	s.save(g)
	s.look(g, now.Add(groupDelay))
}

// SetDesiredCapacity sets a group's desired capacity. With honorCooldown, it fails while the group cools down.
func (s *autoScaling) SetDesiredCapacity(name string, desired int, honorCooldown bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.findLiving(name)
	switch {
	case err != nil:
		return err
	case desired > g.Max:
		return apiError("ValidationError",
			"New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", desired, g.Max)
	case desired < g.Min:
		return apiError("ValidationError",
			"New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", desired, g.Min)
	case honorCooldown && s.clock.Now().Before(g.CoolsUntil):
		return apiError("ScalingActivityInProgress", "The group %s cools down until %s and blocks this action", name,
			g.CoolsUntil.UTC().Format(time.RFC3339))
	}
	want := g.GroupSettings
	want.Desired = desired
	s.set(g, want, "a user request explicitly set group desired capacity")
	return s.commit()
}

// DeleteAutoScalingGroup deletes a group; with force, also its instances.
func (s *autoScaling) DeleteAutoScalingGroup(name string, force bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	switch {
	case err != nil:
		return err
	case g.DeletionProtection == PreventAllDeletion, g.DeletionProtection == PreventForceDeletion && force:
		return apiError("ValidationError",
			"AutoScalingGroup %s has the deletion protection %s: update it to none first", name, g.DeletionProtection)
	case len(g.Members) > 0 && !force:
		return apiError("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot "+
			"instance request(s) still in the group.")
	}
	g.Hooks = nil
	for _, id := range g.memberIDs() {
		s.hooks.answer(g, g.member(id), func(HookWait) bool { return true }, HookContinue)
	}
	s.deleteGroup(g)
	return s.commit()
}

func (s *autoScaling) deleteGroup(g *group) {
	g.Deleting, g.Min, g.Desired = true, 0, 0
	g.Suspended = nil
	s.settle(g)
}

// drop removes a group and its activities.
func (s *groupRecords) drop(g *group) {
	if g.timer != nil {
		g.timer.Stop()
	}
	delete(s.groups, g.Name)
	s.store.remove(bucketGroups, g.Name)
	for _, a := range s.activities[g.Name] {
		s.store.remove(bucketActivities, a.key())
	}
	delete(s.activities, g.Name)
}

// TagAutoScalingGroup sets and removes tags of a group.
func (s *autoScaling) TagAutoScalingGroup(name string, set []GroupTag, remove []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	if err != nil {
		return err
	}
	if err := g.tag(set); err != nil {
		return err
	}
	g.Tags = slices.DeleteFunc(g.Tags, func(t GroupTag) bool { return slices.Contains(remove, t.Key) })
	s.save(g)
	return s.commit()
}

// tag sets tags; a tag with an existing key replaces the old one.
func (g *group) tag(set []GroupTag) error {
	tags := slices.Clone(g.Tags)
	for _, t := range set {
		if t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256 || strings.HasPrefix(t.Key, "aws:") {
			return apiError("ValidationError", "Tag '%s': keys have 1 to 128 characters and do not begin with aws:, "+
				"values have at most 256", t.Key)
		}
		tags = slices.DeleteFunc(tags, func(have GroupTag) bool { return have.Key == t.Key })
		tags = append(tags, t)
	}
	if len(tags) > maxGroupTags {
		return apiError("LimitExceeded", "A group has at most %d tags", maxGroupTags)
	}
	slices.SortFunc(tags, func(a, b GroupTag) int { return cmp.Compare(a.Key, b.Key) })
	g.Tags = tags
	return nil
}

// Processes of a group that can be suspended.
var Processes = []string{
	"AddToLoadBalancer", "AlarmNotification", "AZRebalance", "HealthCheck", "InstanceRefresh", "Launch",
	"ReplaceUnhealthy", "ScheduledActions", "Terminate",
}

// SuspendProcesses suspends processes of a group; none means all.
func (s *autoScaling) SuspendProcesses(name string, processes []string) error {
	return s.suspend(name, processes, func(g *group, p string) {
		if g.Suspended == nil {
			g.Suspended = map[string]string{}
		}
		g.Suspended[p] = "User suspended at " + s.stamp()
	})
}

// ResumeProcesses resumes suspended processes of a group; none means all.
func (s *autoScaling) ResumeProcesses(name string, processes []string) error {
	return s.suspend(name, processes, func(g *group, p string) { delete(g.Suspended, p) })
}

func (s *autoScaling) suspend(name string, processes []string, change func(*group, string)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	if err != nil {
		return err
	}
	if len(processes) == 0 {
		processes = Processes
	}
	for _, p := range processes {
		if !slices.Contains(Processes, p) {
			return apiError("ValidationError", "Process '%s' is not one of %v", p, Processes)
		}
	}
	g.Suspended = maps.Clone(g.Suspended)
	for _, p := range processes {
		change(g, p)
	}
	g.RetryAt = time.Time{}
	s.save(g)
	s.look(g, s.clock.Now())
	return s.commit()
}

// zonesOf returns the distinct zones of those subnets that still exist.
func (s *autoScaling) zonesOf(subnets []string) []string {
	var zones []string
	for _, id := range subnets {
		if sub := s.network.subnet(id); sub != nil {
			zones = append(zones, sub.Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
