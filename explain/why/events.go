package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/explain/capture"
)

// mostEvents is how many are told.
const mostEvents = 5

// objectKinds are the kinds as events name them.
var objectKinds = map[string]string{PodKind: "Pod", NodeKind: "Node", ClaimKind: "NodeClaim", PoolKind: "NodePool"}

func objectKind(kind string) string { return or(objectKinds[kind], workloads[kind].kind) }

// events are the events about a subject, oldest first: about the object that is there or, if there is none, about the
// last one of its name.
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

// about reports whether an event is about the object of that UID and not about another one of its name. A kubelet
// gives the name of its Node for the UID.
func about(e *corev1.Event, uid types.UID) bool {
	of := &e.InvolvedObject
	return uid == "" || of.UID == "" || of.UID == uid || of.Kind == "Node" &&
		(string(of.UID) == of.Name || string(uid) == of.Name)
}

// uid is the UID of the subject, "" if it is not there.
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

// events adds what was said of the object. Who may not read events is told so, and has the rest of the answer.
func (q *question) events(ctx context.Context, of Subject) {
	all, err := q.past.events(ctx, of)
	if err != nil {
		q.sayf("events", "not read: %v", err)
		return
	}
	all = q.news(all)
	for _, e := range all[max(0, len(all)-mostEvents):] {
		q.say("event", q.eventText(&e))
	}
}

// routine are the reasons of what a kubelet and the node controller say of every node that starts, and which
// therefore explains none.
var routine = []string{
	"Starting", "NodeAllocatableEnforced", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
	"NodeReady",
	"RegisteredNode",
}

// news are the events that say what was not said yet: of several with one text the last, none that is routine, and
// none whose text is a fact already, such as kube-scheduler's, which is on the pod, too.
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

// said adds what was said of something that is not there any more, and reports whether anything was. alone = there is
// nothing else to say of it.
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
	for _, e := range news[max(0, len(news)-2*mostEvents):] {
		q.say("event", q.eventText(&e))
	}
	return true, nil
}
