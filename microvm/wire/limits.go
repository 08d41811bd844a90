package wire

import (
	"slices"
	"strings"
)

// Limits of the texts in a pod's status and events, in bytes, and of the groups of a user. A kubelet cuts termination
// messages to as much.
const (
	maxReason  = 128
	maxMessage = 4096
	maxGroups  = 1024
)

// CutMessage returns the beginning of a message that a guest may have written.
func CutMessage(text string) string { return cut(text, maxMessage) }

// cut returns at most limit bytes of a text, in whole characters. What is left out is not kept in memory.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:limit], ""))
}

// Restrict removes what a guest must not report: containers that the pod does not have, those reported before, and
// texts that are too long.
func (u *Update) Restrict(containers []string) {
	s := &u.Status
	s.Failure = CutMessage(s.Failure)
	s.Containers = restrict(s.Containers, containers, func(c ContainerStatus) string { return c.Name })
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Reason, c.Message = cut(c.Reason, maxReason), CutMessage(c.Message)
		if u := c.User; u != nil && len(u.Groups) > maxGroups {
			u.Groups = slices.Clone(u.Groups[:maxGroups])
		}
		for _, e := range []*Exit{c.Exit, c.LastExit} {
			if e != nil {
				e.Reason, e.Message = cut(e.Reason, maxReason), CutMessage(e.Message)
			}
		}
	}
	var events []Event
	for _, e := range u.Events {
		if e.Container == "" || slices.Contains(containers, e.Container) {
			e.Reason, e.Message = cut(e.Reason, maxReason), CutMessage(e.Message)
			events = append(events, e)
		}
	}
	u.Events = events
}

// Restrict removes containers that the pod does not have, and those reported before.
func (s *Stats) Restrict(containers []string) {
	s.Containers = restrict(s.Containers, containers, func(c ContainerStats) string { return c.Name })
}

// restrict returns the first item of each name, in a new list that keeps no other in memory.
func restrict[T any](items []T, names []string, name func(T) string) (out []T) {
	left := map[string]bool{}
	for _, n := range names {
		left[n] = true
	}
	for _, item := range items {
		if n := name(item); left[n] {
			left[n] = false
			out = append(out, item)
		}
	}
	return out
}
