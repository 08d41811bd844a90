package region

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Durations of EC2 Auto Scaling, much shorter than AWS's: AWS checks a group's instances about every minute.
const (
	groupDelay     = time.Second      // from a group's change to its first launch or termination
	firstRetry     = 10 * time.Second // after a failed launch; doubles with each consecutive failure
	lastRetry      = 5 * time.Minute
	zoneRecovery   = 10 * time.Minute // no rebalancing into a zone for this long after it lacked capacity
	rebalanceAfter = time.Minute      // without activity in the group
)

// settleGroup brings a group as close to its desired state as is possible now, and schedules the next settle.
func (s *autoScaling) settleGroup(g *group) {
	g.Zones = s.zonesOf(g.Subnets) // subnets may have been deleted
	s.observe(g)
	s.advanceRefresh(g)
	s.markLeaving(g)
	s.launches.launchMissing(g)
	s.terminateSurplus(g)
	if g.Deleting && len(g.Members) == 0 {
		s.drop(g)
		return
	}
	s.save(g)
	if at := s.nextLook(g); !at.IsZero() {
		s.look(g, at)
	}
}

// nextLook returns when a group must settle next even if none of its instances changes; zero means never.
func (s *autoScaling) nextLook(g *group) time.Time {
	var next time.Time
	consider := func(at time.Time) {
		if now := s.clock.Now(); at.Before(now) {
			at = now.Add(groupDelay)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		for _, w := range m.Waits {
			consider(w.Until)
		}
		if g.MaxLifetime > 0 && m.counts() {
			consider(m.JoinedAt.Add(g.MaxLifetime))
		}
		if grace := m.JoinedAt.Add(g.HealthCheckGrace); s.failsCheck(m) && s.clock.Now().Before(grace) {
			consider(grace)
		}
	}
	if g.capacity() < g.Desired && g.runs("Launch") {
		consider(g.RetryAt)
	}
	if r := g.refresh(); r != nil {
		consider(s.clock.Now().Add(max(r.Warmup, groupDelay)))
	}
	if fullest, emptiest := g.imbalance(); fullest != emptiest && g.runs("AZRebalance") {
		consider(s.rebalanceAt(g, emptiest))
	}
	return next
}

// observe updates a group's members from the states of their instances.
func (s *autoScaling) observe(g *group) {
	for _, id := range g.memberIDs() {
		m, i := g.member(id), s.instances.byID[id]
		gone := i == nil || i.State == Terminated
		switch {
		case gone && (m.terminating() || i == nil || g.runs("HealthCheck")):
			s.remove(g, m)
		case gone:
		case i.State == ShuttingDown && !m.terminating() && g.runs("HealthCheck"):
			s.ended(g, m)
		case m.pending():
			s.bringIntoService(g, m, i)
		case m.Lifecycle == LifecycleTerminatingWait:
			s.hooks.endWaits(g, m)
		case s.isUnhealthy(g, m) && m.Lifecycle == LifecycleInService && g.runs("HealthCheck") && g.runs("ReplaceUnhealthy"):
			s.terminate(g, m, fmt.Sprintf("At %s an instance was taken out of service in response to an EC2 health check.",
				s.stamp()))
		}
	}
}

// isUnhealthy reports whether a client has marked a member unhealthy, or its instance fails a status check after the
// group's grace period (EC2 Auto Scaling user guide, "Health checks for instances in an Auto Scaling group").
func (s *autoScaling) isUnhealthy(g *group, m *GroupMember) bool {
	return m.Unhealthy || s.failsCheck(m) && !s.clock.Now().Before(m.JoinedAt.Add(g.HealthCheckGrace))
}

func (s *autoScaling) failsCheck(m *GroupMember) bool {
	i := s.instances.byID[m.ID]
	return i != nil && i.Impairment.failsCheck()
}

func (g *group) memberIDs() []string {
	ids := make([]string, len(g.Members))
	for i, m := range g.Members {
		ids[i] = m.ID
	}
	return ids
}

// remove removes a member whose instance no longer exists.
func (s *autoScaling) remove(g *group, m *GroupMember) {
	s.mark(g, m.Activity, ActivitySuccessful, "", 100)
	id := m.ID
	g.Members = slices.DeleteFunc(g.Members, func(x GroupMember) bool { return x.ID == id })
	g.ChangedAt = s.clock.Now()
}

// ended records that an instance ended without its group terminating it.
func (s *autoScaling) ended(g *group, m *GroupMember) {
	s.mark(g, m.Activity, ActivityFailed, "Instance became unhealthy while waiting for instance to be in InService "+
		"state. Termination Reason: "+s.instances.byID[m.ID].ReasonMessage, 100)
	a := s.begin(g, Activity{
		Description: "Terminating EC2 instance: " + m.ID, Zone: m.Zone,
		Cause: fmt.Sprintf("At %s an instance was taken out of service in response to an EC2 health check indicating it has "+
			"been terminated or stopped.", s.stamp()),
	})
	m.Lifecycle, m.Unhealthy, m.Activity, m.Waits = LifecycleTerminating, true, a.ID, nil
}

// bringIntoService puts a member into service once its instance runs and its launch hooks are done.
func (s *autoScaling) bringIntoService(g *group, m *GroupMember, i *instance) {
	s.hooks.endWaits(g, m)
	if m.terminating() || len(m.Waits) > 0 || i.State != Running {
		return
	}
	m.Lifecycle = LifecycleInService
	s.mark(g, m.Activity, ActivitySuccessful, "", 100)
	m.Activity = ""
}

// markLeaving marks members to be replaced: too old, at risk of an interruption, or in the wrong zone.
func (s *autoScaling) markLeaving(g *group) {
	now := s.clock.Now()
	for i := range g.Members {
		m := &g.Members[i]
		if !m.counts() || m.Lifecycle != LifecycleInService {
			continue
		}
		x := s.instances.byID[m.ID]
		tooOld := g.MaxLifetime > 0 && !now.Before(m.JoinedAt.Add(g.MaxLifetime)) && !g.replacing()
		atRisk := g.CapacityRebalance && x != nil && (!x.InterruptAt.IsZero() || !x.RebalanceAt.IsZero())
		if tooOld || atRisk {
			m.Leaving = true
		}
	}
	fullest, emptiest := g.imbalance()
	if fullest == emptiest || g.capacity() != g.Desired || g.replacing() || now.Before(s.rebalanceAt(g, emptiest)) ||
		!g.runs("AZRebalance") || !g.runs("Launch") || !g.runs("Terminate") {
		return
	}
	if m := s.victim(g, fullest); m != nil {
		m.Leaving = true
		g.Cause = fmt.Sprintf("At %s instances were launched to balance instances in zones %v with other zones resulting in "+
			"more than the desired number of instances in the group.", s.stamp(), []string{emptiest})
	}
}

// replacing reports whether members are being launched, replaced or terminated.
func (g *group) replacing() bool {
	return slices.ContainsFunc(g.Members, func(m GroupMember) bool { return m.Leaving || m.pending() || m.terminating() })
}

// imbalance returns the zones with the most and the least capacity if the former would still have no less than the
// latter after any of its members moved there; otherwise it returns the same zone twice.
func (g *group) imbalance() (fullest, emptiest string) {
	load := g.load()
	for _, z := range g.Zones {
		if fullest == "" || load[z] > load[fullest] {
			fullest = z
		}
		if emptiest == "" || load[z] < load[emptiest] {
			emptiest = z
		}
	}
	heaviest := 0
	for i := range g.Members {
		if m := &g.Members[i]; m.Zone == fullest && g.mayShed(m) {
			heaviest = max(heaviest, m.Weight)
		}
	}
	if heaviest == 0 || load[fullest]-load[emptiest] < 2*heaviest {
		return fullest, fullest
	}
	return fullest, emptiest
}

// load returns the capacity in each zone of a group.
func (g *group) load() map[string]int {
	load := map[string]int{}
	for _, m := range g.Members {
		if m.counts() {
			load[m.Zone] += m.Weight
		}
	}
	return load
}

// rebalanceAt returns the earliest time to launch into a zone only to rebalance.
func (s *autoScaling) rebalanceAt(g *group, zone string) time.Time {
	at := g.ChangedAt.Add(rebalanceAfter)
	if failed, ok := g.ZoneFailedAt[zone]; ok && failed.Add(zoneRecovery).After(at) {
		at = failed.Add(zoneRecovery)
	}
	return at
}

// launchMissing launches instances until the group has its desired capacity, or a launch fails.
func (s *groupLaunches) launchMissing(g *group) {
	if !g.runs("Launch") || s.clock.Now().Before(g.RetryAt) {
		return
	}
	for g.capacity() < g.Desired {
		if failure := s.launchOne(g); failure != nil {
			s.launchFailed(g, failure)
			return
		}
		g.Failures, g.RetryAt = 0, time.Time{}
	}
}

// launchFailed records a launch that failed in every zone. Each consecutive failure delays the next attempt longer.
func (s *groupLaunches) launchFailed(g *group, failure *APIError) {
	a := s.begin(g, Activity{
		Description: "Launching a new EC2 instance.  Status Reason: " + failure.Message + " Launching EC2 instance failed.",
		Cause:       s.launchCause(g),
	})
	s.mark(g, a.ID, ActivityFailed, failure.Message+" Launching EC2 instance failed.", 100)
	g.Failures++
	g.RetryAt = s.clock.Now().Add(min(firstRetry<<min(g.Failures-1, 10), lastRetry))
}

// zonesByNeed returns the group's zones, least capacity first.
func (g *group) zonesByNeed() []string {
	load, zones := g.load(), slices.Clone(g.Zones)
	slices.SortStableFunc(zones, func(a, b string) int { return load[a] - load[b] })
	return zones
}

// launchOne launches one instance in the zone with the least capacity that can launch it.
func (s *groupLaunches) launchOne(g *group) *APIError {
	capacityType := s.nextCapacityType(g)
	choices, failure := s.choices(g.GroupSettings, capacityType)
	if failure != nil {
		return failure
	}
	failure = apiError("InvalidSubnetID.NotFound", "None of the subnets %v exists.", g.Subnets)
	for _, zone := range g.zonesByNeed() {
		options := s.options(g, choices, zone, capacityType)
		if len(options) == 0 {
			failure = apiError("Unsupported", "Your requested instance type is not supported in your requested Availability "+
				"Zone (%s).", zone)
		}
		for _, x := range options {
			var id string
			if id, failure = s.launch(g, x, capacityType); failure == nil {
				s.join(g, x, id, capacityType)
				return nil
			}
		}
		g.ZoneFailedAt = maps.Clone(g.ZoneFailedAt)
		g.ZoneFailedAt[zone] = s.clock.Now()
	}
	return failure
}

// launch starts the instance of an option.
func (s *groupLaunches) launch(g *group, x groupOption, capacityType string) (string, *APIError) {
	tags := map[string]string{groupTag: g.Name}
	if x.ref.ID != "" {
		tags["aws:ec2launchtemplate:id"], tags["aws:ec2launchtemplate:version"] = x.ref.ID, x.ref.Version
	}
	for _, t := range g.Tags {
		if t.Propagate {
			tags[t.Key] = t.Value
		}
	}
	return s.launcher.launch(x.option, origin{capacityType: capacityType, tags: tags})
}

// join makes a new instance a member and starts its launch hooks.
func (s *groupLaunches) join(g *group, x groupOption, id, capacityType string) {
	a := s.begin(g, Activity{
		Description: "Launching a new EC2 instance: " + id, Cause: s.launchCause(g), Zone: x.subnet.Zone,
		Progress: 30,
	})
	g.Members = append(g.Members, GroupMember{
		ID: id, Type: x.o.InstanceType, ImageID: x.o.ImageID, Zone: x.subnet.Zone, CapacityType: capacityType,
		Lifecycle: LifecyclePending, Template: x.ref, Configuration: g.Launch.Configuration, Weight: x.weight,
		JoinedAt: s.clock.Now(), Protected: g.ProtectNew, Activity: a.ID,
	})
	s.hooks.startWaits(g, &g.Members[len(g.Members)-1], TransitionLaunching)
}
