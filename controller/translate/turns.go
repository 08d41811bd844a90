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

// Turns are those of a pool at a time.
type Turns struct {
	Zone    string // IANA name of the time zone of all schedules
	Budgets []Turn // in the order of spec.disruption.budgets
	Window  *Turn  // nil if nodes may be disrupted at any time
	For     []karpv1.DisruptionReason
}

// TurnsOf returns the turns of a pool's budgets and of its disruption window. A budget whose schedule cannot be read is
// in force: it allows nothing.
func TurnsOf(np *karpv1.NodePool, now time.Time) Turns {
	annotations, _ := ReadDisruptionAnnotations(np) // the pool says what cannot be read
	shown, out := wall(now, annotations.zone), Turns{Zone: annotations.zone.String()}
	for i := range np.Spec.Disruption.Budgets {
		b, turn := &np.Spec.Disruption.Budgets[i], Turn{Active: true}
		if b.Schedule != nil && b.Duration != nil {
			if s, err := readSchedule(*b.Schedule, b.Duration.Duration); err == nil {
				_, turn.Active = s.begun(shown)
				turn.Next = instant(s.turns(shown), annotations.zone, now)
			}
		}
		out.Budgets = append(out.Budgets, turn)
	}
	if len(annotations.windows) == 0 {
		return out
	}
	open, until := inWindows(annotations.windows, shown)
	out.Window = &Turn{open, instant(until, annotations.zone, now)}
	for _, r := range []karpv1.DisruptionReason{
		karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized,
	} {
		if annotations.binds.Binds(model.Method(r)) {
			out.For = append(out.For, r)
		}
	}
	return out
}
