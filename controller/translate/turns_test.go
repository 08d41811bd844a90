package translate

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// On a Friday at 10:00 in Berlin the budget for working hours is in force until 17:00 there, the budget for weekends
// begins at midnight, and the nightly window opens at 22:00.
func TestBudgetsAndWindowsTellWhenTheyTurn(t *testing.T) {
	budget := func(schedule string, d time.Duration) karpv1.Budget {
		return karpv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &metav1.Duration{Duration: d}}
	}
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		AnnotationTimeZone: "Europe/Berlin", AnnotationWindows: "0 22 * * * 8h", AnnotationWindowsFor: "Drifted",
	}}}
	np.Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: "10%"},
		budget("0 9 * * mon-fri", 8*time.Hour),
		budget("0 0 * * sat", 48*time.Hour),
		budget("nonsense", time.Hour),
		budget("0 0 30 2 *", time.Hour),
	}
	berlin := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour-1, 0, 0, 0, time.UTC) }
	got := TurnsOf(np, berlin(27, 10), 3*24*time.Hour)
	want := []Turn{{true, time.Time{}}, {true, berlin(27, 17)}, {false, berlin(28, 0)}, {true, time.Time{}}, {}}
	if !slices.Equal(got.Budgets, want) {
		t.Errorf("budgets turn at %v, want %v", got.Budgets, want)
	}
	for i, want := range [][]Span{
		nil,
		{{berlin(27, 10), berlin(27, 17)}, {berlin(30, 9), berlin(30, 10)}},
		{{berlin(28, 0), berlin(30, 0)}},
		nil,
		nil,
	} {
		if !slices.Equal(got.BudgetSpans[i], want) {
			t.Errorf("budget %d is in force %v, want %v", i, got.BudgetSpans[i], want)
		}
	}
	if want := []Span{
		{berlin(27, 22), berlin(28, 6)},
		{berlin(28, 22), berlin(29, 6)},
		{berlin(29, 22), berlin(30, 6)},
	}; !slices.Equal(got.WindowSpans, want) {
		t.Errorf("the window is open %v, want %v", got.WindowSpans, want)
	}
	if got.Zone != "Europe/Berlin" || got.Window == nil || *got.Window != (Turn{false, berlin(27, 22)}) ||
		!slices.Equal(got.For, []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}) {
		t.Errorf("%+v, window %+v", got, got.Window)
	}
	if plain := TurnsOf(&karpv1.NodePool{}, berlin(27, 10), time.Hour); plain.Window != nil || plain.Budgets != nil || plain.Zone != "UTC" {
		t.Errorf("a pool without any: %+v", plain)
	}
}
