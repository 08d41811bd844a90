package region

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// TerminationPolicies are the policies by which a group chooses instances to terminate.
var TerminationPolicies = []string{
	"AllocationStrategy", "ClosestToNextInstanceHour", "Default", "NewestInstance", "OldestInstance",
	"OldestLaunchConfiguration", "OldestLaunchTemplate",
}

// terminateSurplus terminates replaced members and those beyond the desired capacity.
func (s *autoScaling) terminateSurplus(g *group) {
	if !g.runs("Terminate") && !g.Deleting {
		return
	}
	for _, id := range g.memberIDs() {
		m := g.member(id)
		if m.Leaving && !m.terminating() && s.serving(g)-m.Weight >= g.Desired {
			s.terminate(g, m, fmt.Sprintf("At %s an instance was taken out of service after another took its place.", s.stamp()))
		}
	}
	if g.Deleting {
		s.endStandby(g)
	}
	for g.capacity() > g.Desired {
		fullest, _ := g.imbalance()
		m := s.victim(g, fullest)
		if m == nil {
			m = s.victim(g, "")
		}
		if m == nil || g.capacity()-m.Weight < g.Desired {
			return
		}
		s.terminate(g, m, fmt.Sprintf("%s  At %s an instance was taken out of service in response to a difference between "+
			"desired and actual capacity, shrinking the capacity from %d to %d.", g.Cause, s.stamp(), g.capacity(), g.Desired))
	}
}

// endStandby terminates the members in standby.
func (s *autoScaling) endStandby(g *group) {
	for i := range g.Members {
		if m := &g.Members[i]; m.Lifecycle == LifecycleStandby {
			s.terminate(g, m, fmt.Sprintf("At %s an instance was taken out of service as its group is deleted.", s.stamp()))
		}
	}
}

// terminate takes a member out of service and shuts its instance down once its hooks are done.
func (s *autoScaling) terminate(g *group, m *GroupMember, cause string) *Activity {
	if m.pending() {
		s.mark(g, m.Activity, ActivityFailed, "The instance was terminated before it was in service", 100)
	}
	a := s.begin(g, Activity{Description: "Terminating EC2 instance: " + m.ID, Cause: cause, Zone: m.Zone})
	m.Activity, m.Lifecycle, m.Waits = a.ID, LifecycleTerminating, nil
	s.hooks.startWaits(g, m, TransitionTerminating)
	if len(m.Waits) == 0 {
		s.hooks.endInstance(m)
	}
	return a
}

// endInstance shuts a member's instance down.
func (s *groupHooks) endInstance(m *GroupMember) {
	m.Lifecycle = LifecycleTerminating
	if i := s.instances.byID[m.ID]; i != nil {
		s.instances.shutDown(i, s.clock.Now(), reasonUser, reasonUserMsg)
		s.instances.arm(i)
	}
}

// mayShed reports whether a group may choose a member to terminate: it must not be protected from scale-in.
func (g *group) mayShed(m *GroupMember) bool { return m.counts() && (!m.Protected || g.Deleting) }

// victim returns the member that a group's policies choose in a zone (in any if zone is ""); nil if all are
// protected.
func (s *autoScaling) victim(g *group, zone string) *GroupMember {
	var candidates []*GroupMember
	for i := range g.Members {
		m := &g.Members[i]
		if g.mayShed(m) && (zone == "" || m.Zone == zone) {
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	for _, policy := range g.policies() {
		candidates = s.choose(g, policy, candidates)
	}
	return slices.MinFunc(candidates, func(a, b *GroupMember) int { return cmp.Compare(a.ID, b.ID) })
}

// policies returns a group's policies, then those of the default policy to break ties.
func (g *group) policies() []string {
	byDefault := []string{
		"AllocationStrategy", "OldestLaunchConfiguration", "OldestLaunchTemplate", "ClosestToNextInstanceHour",
	}
	out := slices.DeleteFunc(slices.Clone(g.TerminationPolicies), func(p string) bool { return p == "Default" })
	return append(out, byDefault...)
}

// choose keeps the candidates that a policy prefers.
func (s *autoScaling) choose(g *group, policy string, candidates []*GroupMember) []*GroupMember {
	switch policy {
	case "AllocationStrategy":
		return g.inExcess(candidates)
	case "OldestInstance":
		return least(candidates, func(m *GroupMember) int64 { return m.JoinedAt.UnixNano() })
	case "NewestInstance":
		return least(candidates, func(m *GroupMember) int64 { return -m.JoinedAt.UnixNano() })
	case "OldestLaunchConfiguration":
		return least(candidates, func(m *GroupMember) int64 {
			if c := s.configurations[m.Configuration]; c != nil {
				return c.CreatedAt.UnixNano()
			}
			return 1<<63 - 1
		})
	case "OldestLaunchTemplate":
		return least(candidates, s.templateAge(g))
	}
	now := s.clock.Now() // ClosestToNextInstanceHour
	return least(candidates, func(m *GroupMember) int64 {
		return int64(time.Hour - now.Sub(m.JoinedAt)%time.Hour)
	})
}

// templateAge orders members by template version, with members of any template not in the group's settings first.
func (s *autoScaling) templateAge(g *group) func(*GroupMember) int64 {
	current := map[string]bool{}
	choices, _ := s.launches.choices(g.GroupSettings, OnDemand) // no choices if the template no longer exists
	for _, c := range choices {
		current[c.ref.ID] = true
	}
	return func(m *GroupMember) int64 {
		version, _ := strconv.ParseInt(m.Template.Version, 10, 64)
		if !current[m.Template.ID] {
			version -= 1 << 32
		}
		return version
	}
}

// inExcess keeps the members of the capacity type that a mixed group has too much of, or all if there are none.
func (g *group) inExcess(candidates []*GroupMember) []*GroupMember {
	m := g.Launch.Mixed
	if m == nil {
		return candidates
	}
	excess := Spot
	if onDemand, total := g.capacityOnDemand(); onDemand > m.onDemandOf(total-1) {
		excess = OnDemand
	}
	kept := slices.DeleteFunc(slices.Clone(candidates), func(x *GroupMember) bool { return x.CapacityType != excess })
	if len(kept) == 0 {
		return candidates
	}
	return kept
}

// least keeps the candidates with the lowest value.
func least(candidates []*GroupMember, value func(*GroupMember) int64) []*GroupMember {
	lowest := value(candidates[0])
	for _, m := range candidates {
		lowest = min(lowest, value(m))
	}
	return slices.DeleteFunc(slices.Clone(candidates), func(m *GroupMember) bool { return value(m) != lowest })
}
