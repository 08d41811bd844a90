package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/live"
)

// mostEvents is how many are told.
const mostEvents = 5

// objectKinds are the kinds as events name them.
var objectKinds = map[string]string{PodKind: "Pod", NodeKind: "Node", ClaimKind: "NodeClaim", PoolKind: "NodePool"}

// eventsOf are the events about a subject, oldest first.
func (q *question) eventsOf(ctx context.Context, of Subject) ([]corev1.Event, error) {
	all, err := q.c.Events(ctx, of.Namespace, of.Name)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e corev1.Event) bool { return e.InvolvedObject.Kind != objectKinds[of.Kind] }), nil
}

// events adds what was said of the object. Who may not read events is told so, and has the rest of the answer.
func (q *question) events(ctx context.Context, of Subject) {
	all, err := q.eventsOf(ctx, of)
	if err != nil {
		q.sayf("events", "not read: %v", err)
		return
	}
	for _, e := range all[max(0, len(all)-mostEvents):] {
		q.say("event", q.eventText(&e))
	}
}

func (q *question) eventText(e *corev1.Event) string {
	text := e.Reason
	if n := times(e); n > 1 {
		text += fmt.Sprintf(" ×%d", n)
	}
	text += fmt.Sprintf(", %s ago", q.ago(live.EventTime(e)))
	if by := or(e.Source.Component, e.ReportingController); by != "" {
		text += " by " + by
	}
	return text + ": " + strings.TrimSpace(e.Message)
}

func times(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

// said adds what was said of something that is not there any more, and reports whether anything was. alone = there is nothing else to
// say of it.
func (q *question) said(ctx context.Context, of Subject, alone bool) (bool, error) {
	all, err := q.eventsOf(ctx, of)
	if err != nil || len(all) == 0 {
		return false, err
	}
	if last := &all[len(all)-1]; alone {
		q.conclude("Gone", Gone, "it is not there any more; the last that was said of it, %s ago: %s: %s",
			q.ago(live.EventTime(last)), last.Reason, strings.TrimSpace(last.Message))
	}
	for _, e := range all[max(0, len(all)-2*mostEvents):] {
		q.say("event", q.eventText(&e))
	}
	return true, nil
}
