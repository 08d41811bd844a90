package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/explain/capture"
)

// maxEvents is how many events are shown.
const maxEvents = 5

// objectKinds are the kinds as events name them.
var objectKinds = map[string]string{PodKind: "Pod", NodeKind: "Node", ClaimKind: "NodeClaim", PoolKind: "NodePool"}

func objectKind(kind string) string { return cmp.Or(objectKinds[kind], workloads[kind].kind) }

// events returns the events about a subject, oldest first: about the existing object or, if there is none, about the
// last one of that name.
func (a *archive) events(ctx context.Context, of Subject) ([]corev1.Event, error) {
	all, err := a.c.Events(ctx, of.Namespace, of.Name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e corev1.Event) bool { return e.InvolvedObject.Kind != objectKind(of.Kind) })
	uid := a.uid(of)
	if uid == "" && len(all) > 0 {
		uid = all[len(all)-1].InvolvedObject.UID
	}
	return slices.DeleteFunc(all, func(e corev1.Event) bool { return !about(&e, uid) }), nil
}

// about reports whether an event is about the object with that UID. Kubelets use the name of their Node as its UID.
func about(e *corev1.Event, uid types.UID) bool {
	of := &e.InvolvedObject
	return uid == "" || of.UID == "" || of.UID == uid || of.Kind == "Node" &&
		(string(of.UID) == of.Name || string(uid) == of.Name)
}

// uid returns the UID of the subject, "" if it does not exist.
func (a *archive) uid(of Subject) types.UID {
	switch of.Kind {
	case PodKind:
		if o := a.c.State.Pod(types.NamespacedName{Namespace: of.Namespace, Name: of.Name}); o != nil {
			return o.UID
		}
	case NodeKind:
		if o := a.c.State.Node(of.Name); o != nil {
			return o.UID
		}
	case ClaimKind:
		if o := a.c.State.Claim(of.Name); o != nil {
			return o.UID
		}
	case PoolKind:
		if o := a.c.State.NodePool(of.Name); o != nil {
			return o.UID
		}
	}
	return ""
}

// events adds the events about an existing object, or why they could not be read.
func (q *question) events(ctx context.Context, of Subject) {
	all, err := q.past.events(ctx, of)
	if err != nil {
		q.sayf("events", "not read: %v", err)
		return
	}
	all = q.news(all)
	for _, e := range all[max(0, len(all)-maxEvents):] {
		q.say("event", q.eventText(&e))
	}
}

// routine are the reasons of events that every starting node has and that explain nothing.
var routine = []string{
	"Starting", "NodeAllocatableEnforced", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
	"NodeReady",
	"RegisteredNode",
}

// news selects the events that add information: it keeps the last of those with equal texts, and drops routine events
// and those whose text is already a fact.
func (q *question) news(all []corev1.Event) []corev1.Event {
	var out []corev1.Event
	for i := range all {
		message := strings.TrimSpace(all[i].Message)
		known := message != "" &&
			slices.ContainsFunc(q.a.Facts, func(f Fact) bool { return strings.Contains(f.Text, message) })
		again := slices.ContainsFunc(all[i+1:], func(e corev1.Event) bool {
			return e.Reason == all[i].Reason && strings.TrimSpace(e.Message) == message
		})
		if !known && !again && !slices.Contains(routine, all[i].Reason) {
			out = append(out, all[i])
		}
	}
	return out
}

func (q *question) eventText(e *corev1.Event) string {
	text := e.Reason
	if n := times(e); n > 1 {
		text += fmt.Sprintf(" ×%d", n)
	}
	text += fmt.Sprintf(", %s ago", q.ago(capture.EventTime(e)))
	if by := cmp.Or(e.Source.Component, e.ReportingController); by != "" {
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

// said adds the events about an object that no longer exists, and reports whether there are any. If alone is set,
// nothing else is known about the object.
func (q *question) said(ctx context.Context, of Subject, alone bool) (bool, error) {
	all, err := q.past.events(ctx, of)
	if err != nil || len(all) == 0 {
		return false, err
	}
	if last := &all[len(all)-1]; alone {
		q.conclude("Gone", Gone, "it no longer exists; its last event, %s ago: %s: %s",
			q.ago(capture.EventTime(last)), last.Reason, strings.TrimSpace(last.Message))
	}
	news := q.news(all)
	for _, e := range news[max(0, len(news)-2*maxEvents):] {
		q.say("event", q.eventText(&e))
	}
	return true, nil
}
