package region

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Activity is a scaling activity of a group.
type Activity struct {
	ID, Group, GroupARN string
	Description, Cause  string
	Status              string // InProgress, Successful, Failed, MidLifecycleAction
	Message             string // of a failure
	Zone                string
	StartedAt, EndedAt  time.Time
	Progress            int    // in percent
	Sequence            uint64 `json:",omitempty"` // orders activities by their start
}

// States of an activity.
const (
	ActivityInProgress = "InProgress"
	ActivitySuccessful = "Successful"
	ActivityFailed     = "Failed"
	ActivityWaits      = "MidLifecycleAction"
)

// keptActivities bounds the history of a group. AWS keeps six weeks.
const keptActivities = 500

func (a *Activity) key() string { return a.Group + "/" + a.ID }

// ScalingActivities returns the activities of a group, newest first; of all groups if name is "".
func (s *groupRecords) ScalingActivities(name string) ([]Activity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "" {
		if _, err := s.find(name); err != nil {
			return nil, err
		}
	}
	var out []Activity
	for of, list := range s.activities {
		if name == "" || of == name {
			for _, a := range list {
				out = append(out, *a)
			}
		}
	}
	slices.SortFunc(out, func(a, b Activity) int { return cmp.Compare(b.Sequence, a.Sequence) })
	return out, nil
}

func (s *groupRecords) restoreActivity(_ string, value []byte) error {
	a := &Activity{}
	if err := json.Unmarshal(value, a); err != nil {
		return err
	}
	s.activities[a.Group] = append(s.activities[a.Group], a)
	return nil
}

// begin records the start of an activity.
func (s *groupRecords) begin(g *group, a Activity) *Activity {
	a.ID, a.Group, a.GroupARN, a.StartedAt = s.newUUID(), g.Name, g.ARN, s.clock.Now()
	a.Sequence, a.Status = s.sequence, ActivityInProgress
	g.ChangedAt = a.StartedAt
	list := append(s.activities[g.Name], &a)
	if len(list) > keptActivities {
		s.store.remove(bucketActivities, list[0].key())
		list = list[1:]
	}
	s.activities[g.Name] = list
	s.store.put(bucketActivities, a.key(), a)
	return &a
}

// mark changes the state of the activity with an ID.
func (s *groupRecords) mark(g *group, id, status, message string, progress int) {
	i := slices.IndexFunc(s.activities[g.Name], func(a *Activity) bool { return a.ID == id })
	if i < 0 {
		return // dropped from the history
	}
	a := s.activities[g.Name][i]
	a.Status, a.Message, a.Progress = status, message, progress
	if status == ActivitySuccessful || status == ActivityFailed {
		a.EndedAt, g.ChangedAt = s.clock.Now(), s.clock.Now()
	}
	s.store.put(bucketActivities, a.key(), a)
}

// causeOf describes a change of a group's desired capacity in AWS's words.
func causeOf(at time.Time, why string, g *group, before int) string {
	return fmt.Sprintf("At %s %s min: %d, max: %d, desired: %d changing the desired capacity from %d to %d.",
		at.UTC().Format(time.RFC3339), why, g.Min, g.Max, g.Desired, before, g.Desired)
}

// launchCause describes, in AWS's words, why an instance is launched.
func (s *groupRecords) launchCause(g *group) string {
	have := g.capacity()
	return fmt.Sprintf("%s  At %s an instance was started in response to a difference between desired and actual "+
		"capacity, increasing the capacity from %d to %d.", g.Cause, s.stamp(), have, g.Desired)
}

func (s *groupRecords) stamp() string { return s.clock.Now().UTC().Format(time.RFC3339) }
