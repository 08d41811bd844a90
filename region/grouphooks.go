package region

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// groupHooks makes groups wait for answers to lifecycle hooks.
type groupHooks struct {
	*groupRecords
	instances *instances
	queues    *queues
	hooked    chan struct{} // closed when an instance begins to wait
}

// LifecycleHook makes a group wait for an answer when it launches or terminates an instance.
type LifecycleHook struct {
	Name          string
	Transition    string
	DefaultResult string        // applied without an answer in time
	Heartbeat     time.Duration // time to answer
	Metadata      string
}

// HookWait is a member's wait for the answer to a hook.
type HookWait struct {
	Hook, Token string
	Until       time.Time // deadline for an answer or a heartbeat
	Latest      time.Time // limit to which heartbeats extend the wait
}

// Durations of lifecycle hooks (PutLifecycleHook, HeartbeatTimeout).
const (
	defaultHeartbeat = time.Hour
	maxHookTime      = 48 * time.Hour
	maxHooks         = 50
)

// Transitions of lifecycle hooks.
const (
	TransitionLaunching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	TransitionTerminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// Results of lifecycle hooks.
const (
	HookContinue = "CONTINUE"
	HookAbandon  = "ABANDON"
)

// PutLifecycleHook sets a hook of a group.
func (s *groupHooks) PutLifecycleHook(name string, h LifecycleHook) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	if err != nil {
		return err
	}
	if err := g.addHook(h); err != nil {
		return err
	}
	s.save(g)
	return s.commit()
}

// addHook adds a hook, replacing any with the same name.
func (g *group) addHook(h LifecycleHook) error {
	if h.Heartbeat == 0 {
		h.Heartbeat = defaultHeartbeat
	}
	if h.DefaultResult == "" {
		h.DefaultResult = HookAbandon
	}
	switch {
	case h.Name == "":
		return apiError("ValidationError", "LifecycleHookName must not be empty")
	case h.Transition != TransitionLaunching && h.Transition != TransitionTerminating:
		return apiError("ValidationError", "LifecycleTransition '%s' is not one of [%s %s]", h.Transition,
			TransitionLaunching, TransitionTerminating)
	case h.DefaultResult != HookContinue && h.DefaultResult != HookAbandon:
		return apiError("ValidationError", "DefaultResult '%s' is not one of [%s %s]", h.DefaultResult, HookContinue,
			HookAbandon)
	case h.Heartbeat < 30*time.Second || h.Heartbeat > 2*time.Hour:
		return apiError("ValidationError", "HeartbeatTimeout must be between 30 and 7200 seconds")
	}
	hooks := slices.DeleteFunc(slices.Clone(g.Hooks), func(x LifecycleHook) bool { return x.Name == h.Name })
	if len(hooks) >= maxHooks {
		return apiError("LimitExceeded", "A group has at most %d lifecycle hooks", maxHooks)
	}
	g.Hooks = append(hooks, h)
	return nil
}

// DeleteLifecycleHook deletes a hook; instances waiting for it continue.
func (s *groupHooks) DeleteLifecycleHook(name, hook string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.find(name)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(g.Hooks, func(h LifecycleHook) bool { return h.Name == hook }) {
		return noHook(name, hook)
	}
	g.Hooks = slices.DeleteFunc(slices.Clone(g.Hooks), func(h LifecycleHook) bool { return h.Name == hook })
	for _, id := range g.memberIDs() {
		s.answer(g, g.member(id), func(w HookWait) bool { return w.Hook == hook }, HookContinue)
	}
	return s.changedGroup(g)
}

func noHook(group, hook string) *APIError {
	return apiError("ValidationError", "No lifecycle hook found with name %s for Auto Scaling group %s", hook, group)
}

// startWaits makes a member wait for the hooks of a transition and notifies the queues.
func (s *groupHooks) startWaits(g *group, m *GroupMember, transition string) {
	now := s.clock.Now()
	for _, h := range g.Hooks {
		if h.Transition != transition {
			continue
		}
		w := HookWait{
			Hook: h.Name, Token: s.newUUID(), Until: now.Add(h.Heartbeat), Latest: now.Add(min(100*h.Heartbeat, maxHookTime)),
		}
		m.Waits = append(m.Waits, w)
		s.notifyHook(g, m, h, w)
	}
	if len(m.Waits) > 0 {
		m.Lifecycle += ":Wait"
		s.mark(g, m.Activity, ActivityWaits, "", 50)
		close(s.hooked)
		s.hooked = make(chan struct{})
	}
}

// HooksChanged returns a channel that is closed when an instance next begins to wait for lifecycle hooks.
func (s *groupHooks) HooksChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooked
}

// notifyHook sends the event of a hook to every queue (EC2 Auto Scaling user guide, "EC2 Auto Scaling event
// reference").
func (s *groupHooks) notifyHook(g *group, m *GroupMember, h LifecycleHook, w HookWait) {
	kind, from, to := "launch", "EC2", "AutoScalingGroup"
	if h.Transition == TransitionTerminating {
		kind, from, to = "terminate", to, from
	}
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": s.newUUID(), "source": "aws.autoscaling", "account": AccountID, "region": s.config.Name,
		"detail-type": fmt.Sprintf("EC2 Instance-%s Lifecycle Action", kind), "time": s.stamp(), "resources": []string{g.ARN},
		"detail": map[string]string{
			"LifecycleActionToken": w.Token, "AutoScalingGroupName": g.Name, "LifecycleHookName": h.Name,
			"EC2InstanceId": m.ID, "LifecycleTransition": h.Transition, "NotificationMetadata": h.Metadata,
			"Origin": from, "Destination": to,
		},
	})
	if err != nil { // strings always have a JSON form
		return
	}
	s.queues.sendAll(string(body))
}

// endWaits ends the waits of a member that passed their deadline, with the hooks' default results.
func (s *groupHooks) endWaits(g *group, m *GroupMember) {
	now := s.clock.Now()
	for _, w := range slices.Clone(m.Waits) {
		if now.Before(w.Until) {
			continue
		}
		result := HookAbandon
		for _, h := range g.Hooks {
			if h.Name == w.Hook {
				result = h.DefaultResult
			}
		}
		s.answer(g, m, func(x HookWait) bool { return x.Token == w.Token }, result)
	}
}

// answer ends the matching waits of a member and, when none is left, lets the member continue.
func (s *groupHooks) answer(g *group, m *GroupMember, is func(HookWait) bool, result string) {
	if !slices.ContainsFunc(m.Waits, is) {
		return
	}
	m.Waits = slices.DeleteFunc(slices.Clone(m.Waits), is)
	switch {
	case m.terminating() && (result == HookAbandon || len(m.Waits) == 0):
		m.Waits = nil
		s.endInstance(m)
	case m.pending() && result == HookAbandon:
		s.mark(g, m.Activity, ActivityFailed, "Instance failed to complete user's Lifecycle Action: Lifecycle Action with "+
			"token was abandoned: "+result, 100)
		a := s.begin(g, Activity{Description: "Terminating EC2 instance: " + m.ID, Zone: m.Zone, Cause: fmt.Sprintf(
			"At %s an instance was taken out of service in response to a failed lifecycle action.", s.stamp())})
		m.Activity, m.Waits = a.ID, nil
		s.endInstance(m)
	case m.pending() && len(m.Waits) == 0:
		m.Lifecycle = LifecyclePendingProceed
	}
}

// waitOf finds the wait that a call refers to, by its token or, without one, by its instance.
func (s *groupHooks) waitOf(name, hook, token, instance string) (*group, *GroupMember, *HookWait, error) {
	g, err := s.find(name)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range g.Members {
		m := &g.Members[i]
		for j := range m.Waits {
			if w := &m.Waits[j]; w.Hook == hook && (w.Token == token || (token == "" && m.ID == instance)) {
				return g, m, w, nil
			}
		}
	}
	return nil, nil, nil, apiError("ValidationError", "No active Lifecycle Action found with instance ID %s", instance)
}

// CompleteLifecycleAction answers a hook for an instance, identified by token or instance ID.
func (s *groupHooks) CompleteLifecycleAction(name, hook, token, instance, result string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if result != HookContinue && result != HookAbandon {
		return apiError("ValidationError", "LifecycleActionResult '%s' is not one of [%s %s]", result, HookContinue,
			HookAbandon)
	}
	g, m, w, err := s.waitOf(name, hook, token, instance)
	if err != nil {
		return err
	}
	token = w.Token
	s.answer(g, m, func(x HookWait) bool { return x.Token == token }, result)
	return s.changedGroup(g)
}

// RecordLifecycleActionHeartbeat extends the wait for the answer to a hook.
func (s *groupHooks) RecordLifecycleActionHeartbeat(name, hook, token, instance string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, _, w, err := s.waitOf(name, hook, token, instance)
	if err != nil {
		return err
	}
	for _, h := range g.Hooks {
		if until := s.clock.Now().Add(h.Heartbeat); h.Name == hook {
			w.Until = until
			if until.After(w.Latest) {
				w.Until = w.Latest
			}
		}
	}
	return s.changedGroup(g)
}
