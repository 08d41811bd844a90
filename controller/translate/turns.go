package translate

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Turn says whether a budget or disruption window is in force, and when that changes; zero if never.
type Turn struct {
	Active bool
	Next   time.Time
}

// Span is a time in which something is in force.
type Span struct{ From, To time.Time }

// Turns are the turns of a pool's budgets and window at a time, and the spans in which these are in force from then
// on.
type Turns struct {
	Zone        string   // IANA name of the time zone of all schedules
	Budgets     []Turn   // in the order of spec.disruption.budgets
	BudgetSpans [][]Span // likewise; nil for a budget without a schedule
	Window      *Turn    // nil if nodes may be disrupted at any time
	WindowSpans []Span
	For         []karpv1.DisruptionReason
}

// TurnsOf returns the turns of a pool's budgets and of its disruption window, and their spans within the given
// duration. A budget whose schedule cannot be read is in force: it allows nothing.
func TurnsOf(np *karpv1.NodePool, now time.Time, within time.Duration) Turns {
	annotations, _ := ReadDisruptionAnnotations(np) // the pool reports what cannot be read
	shown, out := wall(now, annotations.zone), Turns{Zone: annotations.zone.String()}
	for i := range np.Spec.Disruption.Budgets {
		b, turn := &np.Spec.Disruption.Budgets[i], Turn{Active: true}
		var spans []Span
		if b.Schedule != nil && b.Duration != nil {
			if s, err := readSchedule(*b.Schedule, b.Duration.Duration); err == nil {
				_, turn.Active = s.begun(shown)
				turn.Next = instant(s.turns(shown), annotations.zone, now)
				spans = spansOf([]schedule{s}, annotations.zone, now, within)
			}
		}
		out.Budgets, out.BudgetSpans = append(out.Budgets, turn), append(out.BudgetSpans, spans)
	}
	if len(annotations.windows) == 0 {
		return out
	}
	open, until := inWindows(annotations.windows, shown)
	out.Window = &Turn{open, instant(until, annotations.zone, now)}
	out.WindowSpans = spansOf(annotations.windows, annotations.zone, now, within)
	for _, r := range []karpv1.DisruptionReason{
		karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized,
	} {
		if annotations.binds.Binds(model.Method(r)) {
			out.For = append(out.For, r)
		}
	}
	return out
}

// spansOf returns when at least one of the schedules is in force, from now on within the given duration. There is at
// most one span in two minutes, the unit of schedules and durations being a minute.
func spansOf(of []schedule, zone *time.Location, now time.Time, within time.Duration) []Span {
	var out []Span
	end := now.Add(within)
	for at := now; at.Before(end); {
		in, until := inWindows(of, wall(at, zone))
		next := instant(until, zone, at)
		if until.IsZero() || next.After(end) {
			next = end
		}
		if !next.After(at) {
			break
		}
		if in {
			out = append(out, Span{at, next})
		}
		at = next
	}
	return out
}
