package region

import (
	"fmt"
	"slices"
)

// groupMembers implements the calls about instances of groups.
type groupMembers struct{ *autoScaling }

// TerminateInstanceInAutoScalingGroup terminates an instance; with decrement, the group does not replace it.
func (s *groupMembers) TerminateInstanceInAutoScalingGroup(id string, decrement bool) (Activity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m, err := s.ofInstance(id)
	switch {
	case err != nil:
		return Activity{}, err
	case m.terminating():
		return Activity{}, apiError("ScalingActivityInProgress",
			"Activity %s is in progress and blocks this action", m.Activity)
	}
	if decrement {
		if err := g.decrement(m); err != nil {
			return Activity{}, err
		}
	}
	cause := fmt.Sprintf("At %s instance %s was taken out of service in response to a user request", s.stamp(), id)
	if decrement {
		cause += fmt.Sprintf(", shrinking the capacity from %d to %d", g.Desired+m.Weight, g.Desired)
	}
	a := s.terminate(g, m, cause+".")
	return *a, s.changedGroup(g)
}

// changedGroup saves a group that a call changed, and makes it settle.
func (s *groupRecords) changedGroup(g *group) error {
	s.save(g)
	s.look(g, s.clock.Now().Add(groupDelay))
	return s.commit()
}

// decrement subtracts a member's weight from its group's desired capacity.
func (g *group) decrement(m *GroupMember) error {
	if m.Lifecycle == LifecycleStandby {
		return nil
	}
	if g.Desired-m.Weight < g.Min {
		return apiError("ValidationError", "Currently, desiredSize equals minSize (%d). Terminating instance without "+
			"replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or "+
			"lower group's min size.", g.Min)
	}
	g.Desired -= m.Weight
	return nil
}

// distinct returns the values of a list without repetitions.
func distinct(list []string) []string {
	var out []string
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// membersOf finds the members that a call names, all of one group and each once.
func (s *groupRecords) membersOf(name string, ids []string) (*group, []*GroupMember, error) {
	g, err := s.find(name)
	if err != nil {
		return nil, nil, err
	}
	var out []*GroupMember
	for _, id := range distinct(ids) {
		m := g.member(id)
		if m == nil {
			return nil, nil, apiError("ValidationError", "The instance %s is not part of Auto Scaling group %s.", id, name)
		}
		out = append(out, m)
	}
	return g, out, nil
}

// DetachInstances removes instances from a group and leaves them running.
func (s *groupMembers) DetachInstances(name string, ids []string, decrement bool) ([]Activity, error) {
	return s.release(name, ids, decrement, "Detaching EC2 instance: ", func(g *group, m *GroupMember) {
		id := m.ID
		g.Members = slices.DeleteFunc(g.Members, func(x GroupMember) bool { return x.ID == id })
		if i := s.instances.byID[id]; i != nil {
			i.Tags = merged(i.Tags)
			delete(i.Tags, groupTag)
			s.instances.save(i)
		}
	})
}

// EnterStandby takes instances out of service without terminating them.
func (s *groupMembers) EnterStandby(name string, ids []string, decrement bool) ([]Activity, error) {
	return s.release(name, ids, decrement, "Moving EC2 instance to Standby: ", func(_ *group, m *GroupMember) {
		m.Lifecycle = LifecycleStandby
	})
}

// release takes instances in service out of it by calling leave for each.
func (s *groupMembers) release(
	name string, ids []string, decrement bool, description string, leave func(*group, *GroupMember),
) ([]Activity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, members, err := s.membersOf(name, ids)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Lifecycle != LifecycleInService {
			return nil, apiError("ValidationError", "The instance %s is not in InService.", m.ID)
		}
	}
	desired := g.Desired
	for _, m := range members {
		if decrement {
			err = g.decrement(m)
		}
		if err != nil {
			g.Desired = desired
			return nil, err
		}
	}
	var out []Activity
	for _, id := range distinct(ids) {
		m := g.member(id)
		a := s.begin(g, Activity{Description: description + id, Zone: m.Zone, Cause: fmt.Sprintf(
			"At %s instance %s was taken out of service in response to a user request.", s.stamp(), id)})
		leave(g, m)
		s.mark(g, a.ID, ActivitySuccessful, "", 100)
		out = append(out, *a)
	}
	return out, s.changedGroup(g)
}

// ExitStandby puts instances back into service; the desired capacity grows by their weight.
func (s *groupMembers) ExitStandby(name string, ids []string) ([]Activity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, members, err := s.membersOf(name, ids)
	if err != nil {
		return nil, err
	}
	weight := 0
	for _, m := range members {
		if m.Lifecycle != LifecycleStandby {
			return nil, apiError("ValidationError", "The instance %s is not in Standby.", m.ID)
		}
		weight += m.Weight
	}
	if g.Desired+weight > g.Max {
		return nil, tooLarge(g, weight)
	}
	g.Desired += weight
	var out []Activity
	for _, m := range members {
		a := s.begin(g, Activity{Description: "Moving EC2 instance out of Standby: " + m.ID, Zone: m.Zone, Cause: fmt.Sprintf(
			"At %s instance %s was moved out of standby in response to a user request.", s.stamp(), m.ID)})
		m.Lifecycle, m.Activity = LifecyclePending, a.ID
		out = append(out, *a)
	}
	return out, s.changedGroup(g)
}

func tooLarge(g *group, weight int) *APIError {
	return apiError("ValidationError",
		"The group %s has a max size of %d: a desired capacity of %d is above it", g.Name, g.Max, g.Desired+weight)
}

// AttachInstances makes running instances members of a group; the desired capacity grows by one for each.
func (s *groupMembers) AttachInstances(name string, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.findLiving(name)
	if err != nil {
		return err
	}
	ids = distinct(ids)
	for _, id := range ids {
		i := s.instances.byID[id]
		_, _, none := s.ofInstance(id)
		switch {
		case i == nil || i.State != Running:
			return apiError("ValidationError", "Invalid Instance ID(s): [%s] specified: it is not running", id)
		case none == nil:
			return apiError("ValidationError", "The instance %s is already part of an Auto Scaling group", id)
		case !slices.Contains(g.Zones, i.Zone):
			return apiError("ValidationError", "The instance %s is in %s, which is not a zone of %s", id, i.Zone, name)
		}
	}
	if g.Desired+len(ids) > g.Max {
		return tooLarge(g, len(ids))
	}
	for _, id := range ids {
		i := s.instances.byID[id]
		g.Desired++
		a := s.begin(g, Activity{Description: "Attaching an existing EC2 instance: " + id, Zone: i.Zone, Cause: fmt.Sprintf(
			"At %s an instance was added in response to a user request, growing the capacity to %d.", s.stamp(), g.Desired)})
		g.Members = append(g.Members, GroupMember{
			ID: id, Type: i.Type, ImageID: i.ImageID, Zone: i.Zone, CapacityType: i.CapacityType, Lifecycle: LifecyclePending,
			Weight: 1, JoinedAt: s.clock.Now(), Protected: g.ProtectNew, Activity: a.ID,
		})
		i.Tags = merged(i.Tags, map[string]string{groupTag: name})
		s.instances.save(i)
	}
	return s.changedGroup(g)
}

// SetInstanceHealth sets whether an instance of a group is healthy. With respectGrace, it does nothing during a new
// instance's grace period.
func (s *groupMembers) SetInstanceHealth(id string, healthy, respectGrace bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, m, err := s.ofInstance(id)
	if err != nil {
		return err
	}
	if respectGrace && s.clock.Now().Before(m.JoinedAt.Add(g.HealthCheckGrace)) {
		return nil
	}
	m.Unhealthy = !healthy
	return s.changedGroup(g)
}

// SetInstanceProtection turns the instances' protection from scale-in on or off.
func (s *groupMembers) SetInstanceProtection(name string, ids []string, protect bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, members, err := s.membersOf(name, ids)
	if err != nil {
		return err
	}
	for _, m := range members {
		m.Protected = protect
	}
	return s.changedGroup(g)
}
