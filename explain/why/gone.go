package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/record"
)

// goneQuestion is a question about an object that no longer exists.
type goneQuestion struct {
	*question
	of Subject
	h  history
}

// aboutGone explains an object that no longer exists from recorded decisions and events, and reports whether there
// are any. The error says what could not be read.
func (q *question) aboutGone(ctx context.Context, of Subject) (bool, error) {
	h, unread := q.history(ctx, of)
	if len(h.about) > 0 {
		q.a.Decisions = h.about
		g := goneQuestion{q, of, h}
		if of.Kind == PodKind {
			g.pod()
		} else {
			g.node()
		}
	}
	events, err := q.said(ctx, of, len(h.about) == 0)
	switch {
	case len(h.about) > 0 || events:
		if unread != nil {
			q.sayf("decided", "not read: %v", unread)
		}
		return true, nil
	case unread != nil:
		return false, unread
	}
	return false, err
}

// pod says what was decided for a pod.
func (q *goneQuestion) pod() {
	h := q.h
	last := &h.about[len(h.about)-1]
	what := "a node was launched for it"
	switch last.Kind {
	case record.Unschedulable:
		what = "no node could take it: " + last.Why
	case record.Launch:
	default:
		what = q.removal(last)
	}
	q.conclude("Gone", Gone, "it no longer exists; the last decision about it, %s ago: %s", q.ago(last.Time), what)
	for i := range h.about {
		r := &h.about[i]
		switch {
		case r.Kind == record.Launch:
			q.launchedAs(r, "")
		case r.Kind == record.Unschedulable:
			q.sayf("unschedulable", "since %s ago: %s", q.ago(r.Time), r.Why)
		case q.evicted(r):
			q.sayf("evicted", "%s ago: %s", q.ago(r.Time), r.Why)
		default:
			q.sayf("decided", "%s ago: %s", q.ago(r.Time), r.Line())
		}
	}
}

// removal says what the decision to remove the pod's node came to for the pod.
func (q *goneQuestion) removal(r *record.Record) string {
	kept := r.Outcome(record.Kept, "")
	switch {
	case kept != nil:
		return "its node was to be removed, which was abandoned: " + cmp.Or(kept.Text, r.Why)
	case q.evicted(r):
		return "it was evicted: " + r.Why
	}
	return "its node was to be removed: " + r.Why
}

// evicted reports whether the decision had the pods of the subject, or the subject itself, evicted. A command evicts
// only once its replacements are ready.
func (q *goneQuestion) evicted(r *record.Record) bool {
	if r.Outcome(record.Kept, "") != nil {
		return false
	}
	if r.Command == "" || r.Outcome(record.RemovalStarted, "") != nil {
		return true
	}
	pod := q.of.Namespace + "/" + q.of.Name
	return slices.ContainsFunc(r.Removed, func(m record.RemovedNode) bool {
		about := m.Claim == q.of.Name || m.Node == q.of.Name
		if q.of.Kind == PodKind {
			about = slices.Contains(m.Pods, pod)
		}
		return about && r.Outcome(record.Terminated, m.Claim) != nil
	})
}

// node says when and why a node was launched and removed, and what that saved; for a pool, what happened to its
// nodes.
func (q *goneQuestion) node() {
	of, h := q.of, q.h
	var last *record.Record
	for i := range h.about {
		if r := &h.about[i]; q.isRemoval(r) && r.Outcome(record.Kept, "") == nil {
			last = r
		}
	}
	switch {
	case of.Kind == PoolKind:
		r := &h.about[len(h.about)-1]
		q.conclude("Gone", Gone, "it no longer exists; the last decision about its nodes, %s ago: %s", q.ago(r.Time), r.Why)
	case last == nil:
		q.conclude("Gone", Gone, "it no longer exists; why it was removed was not recorded")
	default:
		q.conclude("Gone", Gone, "it was removed by a decision %s ago: %s", q.ago(last.Time), cmp.Or(last.Why, last.Method))
	}
	for i := range h.about[max(0, len(h.about)-2*maxDecisions):] {
		r := &h.about[max(0, len(h.about)-2*maxDecisions)+i]
		switch {
		case of.Kind == PoolKind, q.isRemoval(r) && r.Outcome(record.Kept, "") != nil:
			q.sayf("decided", "%s ago: %s", q.ago(r.Time), r.Line())
		case q.isRemoval(r):
			q.removed(r)
		default:
			q.launchedAs(r, of.Name)
		}
	}
}

// isRemoval reports whether a decision removed the node.
func (q *goneQuestion) isRemoval(r *record.Record) bool {
	return slices.ContainsFunc(r.Removed,
		func(m record.RemovedNode) bool { return m.Claim == q.of.Name || m.Node == q.of.Name })
}

// launchedAs says which node was launched, for which pods, and what the alternatives were.
func (q *goneQuestion) launchedAs(r *record.Record, name string) {
	if len(r.Launched) == 0 {
		return
	}
	i := slices.IndexFunc(r.Launched, func(b record.LaunchedNode) bool {
		o := r.Outcome(record.Ready, b.Claim)
		return b.Claim == name || o != nil && o.Node == name
	})
	b := r.Launched[max(i, 0)]
	q.sayf("launched", "%s ago as nodeclaim %s, pool %s: %s", q.ago(r.Time), b.Claim, b.Pool, b.Chosen)
	if r.Kind == record.Launch {
		q.sayf("for", "%s", pods(r.Pods, r.PodsMore))
	} else {
		q.say("by decision", r.Why)
	}
	q.say("why this type", alternatives(&b))
	if o := r.Outcome(record.Ready, b.Claim); o != nil {
		q.sayf("ready", "after %s, as node %s", took(o.Seconds), o.Node)
	} else {
		q.say("ready", "never, as far as was recorded")
	}
}

// removed says why and when a node was removed, what ran on it, what replaced it and what that saved.
func (q *goneQuestion) removed(r *record.Record) {
	of := q.of
	i := slices.IndexFunc(r.Removed, func(m record.RemovedNode) bool { return m.Claim == of.Name || m.Node == of.Name })
	m := r.Removed[i]
	q.sayf("removed because", "%s (%s)", r.Why, r.Method)
	if len(m.Pods)+m.PodsMore > 0 && q.evicted(r) {
		q.sayf("evicted", "%s", pods(m.Pods, m.PodsMore))
	}
	for _, b := range r.Launched[:min(len(r.Launched), 5)] {
		q.sayf("replacement", "nodeclaim %s: %s", b.Claim, b.Chosen)
	}
	if o := r.Outcome(record.Kept, ""); o != nil {
		q.sayf("abandoned", "after %s: %s", took(o.Seconds), o.Text)
	}
	if o := r.Outcome(record.Terminated, m.Claim); o != nil {
		q.sayf("terminated", "%s after that, %s ago%s", took(o.Seconds), q.ago(o.Time), because("", o.Text))
	}
	for _, s := range record.Savings(q.h.all, q.s.Now, record.DefaultHorizon).Savings {
		if s.Decision == r.ID {
			q.sayf("saved", "%s so far (%s); \"nodeless savings\" says compared with what", record.Money(s.Dollars), s.State)
		}
	}
}

// alternatives compares the chosen offer with the others.
func alternatives(b *record.LaunchedNode) string {
	if b.RunnerUp == nil {
		return "no other type fitted"
	}
	text := fmt.Sprintf("the cheapest of %s; the runner-up was %s", reason.Count(b.Types, "type"), b.RunnerUp)
	for i, o := range b.Others {
		if i == 0 {
			text += "; next "
		} else {
			text += ", "
		}
		text += o.String()
	}
	return text
}

// pods names some of the pods.
func pods(names []string, more int) string {
	if len(names)+more == 0 {
		return "the replicas of its pool"
	}
	shown := names[:min(len(names), maxDecisions)]
	if len(shown) == 0 {
		return reason.Count(more, "pod") + " not created yet"
	}
	text := reason.Count(len(names)+more, "pod") + ": " + strings.Join(shown, ", ")
	if left := len(names) + more - len(shown); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}
