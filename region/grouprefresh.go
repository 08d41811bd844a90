package region

import (
	"cmp"
	"slices"
	"time"
)

// InstanceRefresh replaces the instances of a group step by step.
type InstanceRefresh struct {
	ID         string
	Status     string // InProgress, Successful or Cancelled
	StartedAt  time.Time
	EndedAt    time.Time
	MinHealthy int           // percentage of the desired capacity that stays in service
	MaxHealthy int           // percentage of the desired capacity up to which the group may grow; 100 means no growth
	Warmup     time.Duration // StartInstanceRefresh replaces a negative one by the group's default
	Skip       bool          // keep instances that already match the settings
	Targets    []string
	Reason     string
}

// States of a refresh.
const (
	RefreshInProgress = "InProgress"
	RefreshSuccessful = "Successful"
	RefreshCancelled  = "Cancelled"
)

// keptRefreshes bounds the history of a group.
const keptRefreshes = 50

// refresh returns the group's refresh in progress, or nil.
func (g *AutoScalingGroup) refresh() *InstanceRefresh {
	if len(g.Refreshes) > 0 && g.Refreshes[0].Status == RefreshInProgress {
		return &g.Refreshes[0]
	}
	return nil
}

// StartInstanceRefresh starts replacing the instances of a group and returns the refresh's ID.
func (s *groupMembers) StartInstanceRefresh(name string, want InstanceRefresh) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	switch {
	case err != nil:
		return "", err
	case g.refresh() != nil:
		return "", apiError("InstanceRefreshInProgress", "An Instance Refresh is already in progress and blocks the "+
			"execution of this Instance Refresh.")
	case want.MinHealthy < 0 || want.MinHealthy > 100 || want.MaxHealthy < 100 || want.MaxHealthy > 200 ||
		want.MaxHealthy-want.MinHealthy > 100:
		return "", apiError("ValidationError", "MinHealthyPercentage must be 0 to 100, MaxHealthyPercentage 100 to 200, and "+
			"their difference at most 100")
	case want.MinHealthy == 100 && want.MaxHealthy == 100:
		return "", apiError("ValidationError", "MinHealthyPercentage and MaxHealthyPercentage cannot both be 100")
	}
	choices, failure := s.launches.choices(g.GroupSettings, OnDemand)
	if failure != nil {
		return "", failure
	}
	if want.Warmup < 0 {
		want.Warmup = *cmp.Or(g.DefaultWarmup, &g.HealthCheckGrace)
	}
	want.ID, want.Status, want.StartedAt = s.newUUID(), RefreshInProgress, s.clock.Now()
	for i := range g.Members {
		m := &g.Members[i]
		if m.counts() && !m.Protected && !(want.Skip && g.isAsWanted(m, choices)) {
			want.Targets = append(want.Targets, m.ID)
		}
	}
	g.Refreshes = append([]InstanceRefresh{want}, g.Refreshes[:min(len(g.Refreshes), keptRefreshes-1)]...)
	return want.ID, s.changedGroup(g)
}

// isAsWanted reports whether a member matches what its group would launch now.
func (g *group) isAsWanted(m *GroupMember, choices []choice) bool {
	return m.Configuration == g.Launch.Configuration && slices.ContainsFunc(choices, func(c choice) bool {
		return c.ref == m.Template && c.instanceType == m.Type && c.imageID == m.ImageID
	})
}

// CancelInstanceRefresh ends a group's refresh in progress and returns its ID. Replacements under way are completed.
func (s *groupMembers) CancelInstanceRefresh(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	if err != nil {
		return "", err
	}
	r := g.refresh()
	if r == nil {
		return "", apiError("ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found for Auto "+
			"Scaling group %s", name)
	}
	r.Status, r.EndedAt = RefreshCancelled, s.clock.Now()
	r.Reason = "Cancelled due to user request."
	return r.ID, s.changedGroup(g)
}

// remaining returns the refresh's targets that are still in the group, including those being replaced.
func (r *InstanceRefresh) remaining(g *AutoScalingGroup) []*GroupMember {
	var out []*GroupMember
	for _, id := range r.Targets {
		if m := g.member(id); m != nil && !m.terminating() {
			out = append(out, m)
		}
	}
	return out
}

// Remaining returns how many of a refresh's instances have not been replaced yet.
func (r *InstanceRefresh) Remaining(g *AutoScalingGroup) int { return len(r.remaining(g)) }

// advanceRefresh takes the next step of a group's refresh. It replaces as many instances at a time as the bounds
// allow, and launches replacements first if the group may grow.
func (s *autoScaling) advanceRefresh(g *group) {
	r := g.refresh()
	if r == nil || !g.runs("InstanceRefresh") {
		return
	}
	left := r.remaining(&g.AutoScalingGroup)
	healthy := s.serving(g)
	if len(left) == 0 && healthy >= g.Desired && g.capacity() >= g.Desired {
		r.Status, r.EndedAt = RefreshSuccessful, s.clock.Now()
		return
	}
	surge := g.Desired * (r.MaxHealthy - 100) / 100
	if r.MaxHealthy > 100 {
		surge = max(surge, 1)
	}
	leaving := 0
	for _, m := range left {
		if m.Leaving {
			leaving++
		}
	}
	spare := healthy - (g.Desired*r.MinHealthy+99)/100
	next := slices.IndexFunc(left, func(m *GroupMember) bool { return !m.Leaving && m.Lifecycle == LifecycleInService })
	if surge == 0 && next >= 0 && healthy >= g.Desired {
		spare = max(spare, left[next].Weight) // replace a small group one by one
	}
	for _, m := range left {
		switch {
		case m.Leaving || m.Lifecycle != LifecycleInService:
		case surge > 0 && leaving < surge:
			m.Leaving = true
			leaving++
		case surge == 0 && spare >= m.Weight:
			s.terminate(g, m, "At "+s.stamp()+" an instance was taken out of service in response to an instance refresh.")
			spare -= m.Weight
		}
	}
}

// serving returns the capacity in service. During a refresh, a new instance counts once its warm-up is over.
func (s *groupRecords) serving(g *group) int {
	total, r := 0, g.refresh()
	for i := range g.Members {
		m := &g.Members[i]
		warming := r != nil && m.JoinedAt.After(r.StartedAt) && s.clock.Now().Before(m.JoinedAt.Add(r.Warmup))
		if m.Lifecycle == LifecycleInService && !warming {
			total += m.Weight
		}
	}
	return total
}
