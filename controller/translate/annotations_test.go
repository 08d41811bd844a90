package translate

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

func poolWith(budgets ...karpv1.Budget) *karpv1.NodePool {
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	np.Spec.Disruption.Budgets = budgets
	return np
}

func annotated(pairs ...string) *karpv1.NodePool {
	np := poolWith(karpv1.Budget{Nodes: "3"})
	np.Annotations = map[string]string{"example.com/other": "is no business of ours"}
	for i := 0; i < len(pairs); i += 2 {
		np.Annotations[pairs[i]] = pairs[i+1]
	}
	return np
}

// policyAt returns the pool's disruption policy at an instant.
func policyAt(t *testing.T, np *karpv1.NodePool, at string) model.DisruptionPolicy {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewNames().Pool(np, PoolState{Now: now, Budgeted: 10})
	if err != nil {
		t.Fatal(err)
	}
	return p.Disruption
}

// In Berlin clocks go from 02:00 to 03:00 on 29 March 2026 (01:00 UTC), and from 03:00 to 02:00 on 25 October 2026
// (01:00 UTC).
func TestWindowsGoByTheClockOnTheWall(t *testing.T) {
	const night, early = "0 22 * * * 8h", "30 2 * * * 1h"
	for _, c := range []struct {
		about, windows, zone, now string
		open                      bool
		until                     string
	}{
		{"before it", night, "Europe/Berlin", "2026-06-01T19:59:00Z", false, "2026-06-01T20:00:00Z"},
		{"its first moment", night, "Europe/Berlin", "2026-06-01T20:00:00Z", true, "2026-06-02T04:00:00Z"},
		{"its last", night, "Europe/Berlin", "2026-06-02T03:59:59Z", true, "2026-06-02T04:00:00Z"},
		{"after it", night, "Europe/Berlin", "2026-06-02T04:00:00Z", false, "2026-06-02T20:00:00Z"},
		{
			"in winter it is another hour of UTC", night, "Europe/Berlin", "2026-12-01T20:30:00Z", false,
			"2026-12-01T21:00:00Z",
		},
		{"without a zone it is UTC", night, "", "2026-06-01T21:59:00Z", false, "2026-06-01T22:00:00Z"},
		{
			"the night an hour is left out ends at six too", night, "Europe/Berlin", "2026-03-28T21:30:00Z", true,
			"2026-03-29T04:00:00Z",
		},
		{
			"the night an hour comes twice ends at six too", night, "Europe/Berlin", "2026-10-24T20:30:00Z", true,
			"2026-10-25T05:00:00Z",
		},
		{
			"what begins in the hour that is left out", early, "Europe/Berlin", "2026-03-29T00:59:00Z", false,
			"2026-03-29T01:00:00Z",
		},
		{"begins when it is over", early, "Europe/Berlin", "2026-03-29T01:00:00Z", true, "2026-03-29T01:30:00Z"},
		{
			"what begins in the hour that comes twice", "15 2 * * * 30m", "Europe/Berlin", "2026-10-25T00:20:00Z", true,
			"2026-10-25T00:45:00Z",
		},
		{"is over in between", "15 2 * * * 30m", "Europe/Berlin", "2026-10-25T01:05:00Z", false, "2026-10-25T01:15:00Z"},
		{"and comes again", "15 2 * * * 30m", "Europe/Berlin", "2026-10-25T01:20:00Z", true, "2026-10-25T01:45:00Z"},
		{"half an hour from UTC", "0 12 * * * 1h", "Asia/Kolkata", "2026-06-01T06:45:00Z", true, "2026-06-01T07:30:00Z"},
		{
			"two that touch are one", "0 22 * * * 2h; @midnight 6h", "UTC", "2026-06-01T22:30:00Z", true,
			"2026-06-02T06:00:00Z",
		},
		{
			"days of the week are those of the zone", "0 0 * * sat,sun 24h", "America/New_York", "2026-06-06T03:59:00Z",
			false, "2026-06-06T04:00:00Z",
		},
		{"a weekend", "0 0 * * sat,sun 24h", "America/New_York", "2026-06-06T04:00:00Z", true, "2026-06-08T04:00:00Z"},
		{"always", "0 * * * * 1h", "UTC", "2026-06-06T04:00:00Z", true, ""},
		{"never", "0 0 30 2 * 1h", "UTC", "2026-06-06T04:00:00Z", false, ""},
	} {
		np := annotated(AnnotationWindows, c.windows)
		if c.zone != "" {
			np.Annotations[AnnotationTimeZone] = c.zone
		}
		got := policyAt(t, np, c.now).Window
		until := ""
		if !got.Until.IsZero() {
			until = got.Until.Format(time.RFC3339)
		}
		if got.Open != c.open || until != c.until || !got.Empty || !got.Drifted || !got.Underused {
			t.Errorf("%s: %+v, want open=%t until %s", c.about, got, c.open, c.until)
		}
	}
}

// A budget that blocks whole days blocks every hour of them, including the day with 25 hours.
func TestBudgetsGoByTheClockOnTheWall(t *testing.T) {
	daily, day := "@daily", &metav1.Duration{Duration: 24 * time.Hour}
	np := annotated(AnnotationTimeZone, "Europe/Berlin")
	np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Schedule: &daily, Duration: day}}
	for at := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC); at.Day() < 26; at = at.Add(10 * time.Minute) {
		if d := policyAt(t, np, at.Format(time.RFC3339)); d.AllowedEmpty != 0 {
			t.Fatalf("%s: %d may go", at, d.AllowedEmpty)
		}
	}
	eight, hour := "0 8 * * *", &metav1.Duration{Duration: time.Hour}
	np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Schedule: &eight, Duration: hour}}
	if summer, utc := policyAt(t, np, "2026-06-01T06:30:00Z"),
		policyAt(t, np, "2026-06-01T08:30:00Z"); summer.AllowedEmpty != 0 || utc.AllowedEmpty != math.MaxInt32 {
		t.Errorf("at eight in Berlin %d may go, at eight in UTC %d", summer.AllowedEmpty, utc.AllowedEmpty)
	}
	if at := NextWindow(np, time.Date(2026, 6, 1, 5, 0, 0, 0, time.UTC)); !at.Equal(time.Date(2026, 6, 1, 6, 0, 0, 0,
		time.UTC)) {
		t.Errorf("next: %s", at)
	}
}

// NextWindow is never too late: at each instant before it, the window's state is unchanged.
func TestNothingChangesBeforeTheNextWindow(t *testing.T) {
	np := annotated(AnnotationTimeZone, "Europe/Berlin", AnnotationWindows, "30 2 * * * 90m; 0 23 * * sat 4h")
	for _, from := range []time.Time{
		time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC),
	} {
		was, next := policyAt(t, np, from.Format(time.RFC3339)).Window.Open, NextWindow(np, from)
		for at := from; at.Before(from.Add(60 * time.Hour)); at = at.Add(5 * time.Minute) {
			if !at.Before(next) {
				was, next = policyAt(t, np, at.Format(time.RFC3339)).Window.Open, NextWindow(np, at)
			}
			if now := policyAt(t, np, at.Format(time.RFC3339)).Window.Open; now != was {
				t.Fatalf("%s: open=%t, but nothing was to change before %s", at, now, next)
			}
		}
	}
}

func TestWishesAreRead(t *testing.T) {
	d := policyAt(t, annotated(
		AnnotationWindows, "@daily 8h", AnnotationWindowsFor, "Drifted, Underutilized", AnnotationMinimumSaving, "$0.05/h",
		AnnotationSoftExpireAfter, "720h", AnnotationMakeRoom, "true", AnnotationWaitForJobs, "true",
	), "2026-06-01T01:00:00Z")
	if d.Window.Empty || !d.Window.Drifted || !d.Window.Underused || !d.Window.Open || d.MinSaving != 50_000 ||
		d.SoftExpireAfter != 720*time.Hour ||
		!d.ReplaceCrowded || !d.WaitForJobs || d.Unclear != "" {
		t.Errorf("%+v", d)
	}
	if d := policyAt(t, annotated(AnnotationMinimumSaving, "15%", AnnotationSoftExpireAfter, "Never"),
		"2026-06-01T01:00:00Z"); d.MinSavingPercent != 15 || d.SoftExpireAfter != 0 {
		t.Errorf("%+v", d)
	}
}

// An annotation that cannot be parsed stops disruption, not launches; the message has the annotation, its value and
// what to write.
func TestWishesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ key, value, says string }{
		{AnnotationTimeZone, "Middle/Earth", "Europe/Berlin"},
		{AnnotationTimeZone, "Local", "IANA"},
		{AnnotationWindows, "", "five cron fields"},
		{AnnotationWindows, "0 22 * * 8h", `"0 22 * * mon-fri 8h"`},
		{AnnotationWindows, "0 25 * * * 8h", "0 25 * * *"},
		{AnnotationWindows, "0 22 * * * 5m", "shorter than"},
		{AnnotationWindows, "@every 3h", "@every has no"},
		{AnnotationWindows, "@every 3h 1h", "five cron fields"},
		{AnnotationWindows, "@every3h 1h", "@every"},
		{AnnotationWindowsFor, "Drifted", AnnotationWindows},
		{AnnotationMinimumSaving, "cheap", "0.05"},
		{AnnotationMinimumSaving, "-1", "0.05"},
		{AnnotationMinimumSaving, "NaN", "0.05"},
		{AnnotationMinimumSaving, "120%", "whole percent"},
		{AnnotationSoftExpireAfter, "30d", "720h"},
		{AnnotationSoftExpireAfter, "5s", "shorter than"},
		{AnnotationMakeRoom, "yes", `"true"`},
		{AnnotationWaitForJobs, "", `"true"`},
		{AnnotationAhead, "no", `"false"`},
		{"nodeless.sh/disruption-window", "0 22 * * * 8h", AnnotationWindows},
	} {
		d := policyAt(t, annotated(c.key, c.value), "2026-06-01T01:00:00Z")
		if !strings.Contains(d.Unclear, "annotation "+c.key) || !strings.Contains(d.Unclear, c.says) {
			t.Errorf("%s=%q: %q, want it to say %q", c.key, c.value, d.Unclear, c.says)
		}
		if n := AllowedDisruptions(annotated(c.key, c.value), karpv1.DisruptionReasonEmpty, time.Now(), 10); n != 0 {
			t.Errorf("%s=%q: the metric says that %d may go", c.key, c.value, n)
		}
	}
	hard := annotated(AnnotationSoftExpireAfter, "720h")
	hard.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
	if d := policyAt(t, hard, "2026-06-01T01:00:00Z"); !strings.Contains(d.Unclear, "expireAfter (720h0m0s)") {
		t.Errorf("%q", d.Unclear)
	}
	bad := annotated(AnnotationWindows, "@daily 1h", AnnotationWindowsFor, "Whim")
	if d := policyAt(t, bad, "2026-06-01T01:00:00Z"); !strings.Contains(d.Unclear, `"Whim" is no reason`) {
		t.Errorf("%q", d.Unclear)
	}
}

func FuzzWishes(f *testing.F) {
	f.Add("0 22 * * mon-fri 8h; @daily 1h", "Europe/Berlin", "15%", "720h")
	f.Fuzz(func(t *testing.T, windows, zone, saving, expire string) {
		np := annotated(AnnotationWindows, windows, AnnotationTimeZone, zone, AnnotationMinimumSaving, saving,
			AnnotationSoftExpireAfter, expire)
		d := policyAt(t, np, "2026-10-25T00:30:00Z")
		if d.Unclear == "" && (d.MinSaving < 0 || d.MinSavingPercent < 0 || d.SoftExpireAfter < 0) {
			t.Errorf("%+v", d)
		}
		NextWindow(np, time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC))
	})
}
