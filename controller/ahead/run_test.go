package ahead

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestWhenACronJobRunsNext(t *testing.T) {
	now := at("2026-06-03T12:00:30Z")
	for _, c := range []struct {
		schedule, zone, last, next, wrong string
		suspend                           bool
	}{
		{schedule: "*/5 * * * *", zone: "Etc/UTC", next: "2026-06-03T12:05:00Z"},
		{schedule: "0 9 * * *", zone: "Europe/Berlin", next: "2026-06-04T07:00:00Z"},
		{schedule: "@hourly", zone: "Etc/UTC", next: "2026-06-03T13:00:00Z"},
		{schedule: "@every 90s", last: "2026-06-03T12:00:10Z", next: "2026-06-03T12:01:40Z"},
		{schedule: "@every 10s", last: "2026-06-03T11:00:05Z", next: "2026-06-03T12:00:35Z"},
		{schedule: "0 0 30 2 *", zone: "Etc/UTC"},
		{schedule: "*/5 * * * *", suspend: true},
		{schedule: "61 * * * *", wrong: "spec.schedule: end of range (61)"},
		{schedule: "* * * * *", zone: "Mars/Olympus", wrong: "spec.schedule: provided bad location"},
		{schedule: "TZ=UTC", wrong: "a time zone and nothing else"},
		{schedule: "", wrong: "spec.schedule: empty spec"},
	} {
		cj := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: c.schedule, Suspend: &c.suspend}}
		if c.zone != "" {
			cj.Spec.TimeZone = &c.zone
		}
		if c.last != "" {
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at(c.last)))
		}
		got, err := Next(cj, now)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q in %q: %v, want an error with %q", c.schedule, c.zone, err, c.wrong)
			}
			continue
		}
		var want time.Time
		if c.next != "" {
			want = at(c.next)
		}
		if err != nil || !got.Equal(want) {
			t.Errorf("%q in %q: %s, %v, want %s", c.schedule, c.zone, got, err, want)
		}
	}
}

func TestHowManyPodsAJobCreatesAtOnce(t *testing.T) {
	for _, c := range []struct {
		job  batchv1.JobSpec
		want int
	}{
		{batchv1.JobSpec{}, 1},
		{batchv1.JobSpec{Parallelism: ptr.To[int32](50)}, 50},
		{batchv1.JobSpec{Parallelism: ptr.To[int32](50), Completions: ptr.To[int32](7)}, 7},
		{batchv1.JobSpec{Parallelism: ptr.To[int32](0)}, 0},
		{batchv1.JobSpec{Suspend: ptr.To(true)}, 0},
		{batchv1.JobSpec{Parallelism: ptr.To[int32](1 << 30)}, MaxPods},
	} {
		if got := podsOf(&c.job); got != c.want {
			t.Errorf("%+v: %d, want %d", c.job, got, c.want)
		}
	}
}

func TestPlaceholdersAvoidPoolsThatAreOff(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	have := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {}},
	}}}
	for _, c := range []struct {
		a    *corev1.Affinity
		want []int // number of requirements in each term
	}{{nil, []int{1}}, {have, []int{2, 0}}} {
		terms := avoiding(c.a, []string{"p"}).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != len(c.want) {
			t.Fatalf("%d terms, want %d", len(terms), len(c.want))
		}
		for i, want := range c.want {
			if got := len(terms[i].MatchExpressions); got != want {
				t.Errorf("term %d has %d requirements, want %d", i, got, want)
			}
		}
	}
	if n := len(have.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions); n != 1 {
		t.Errorf("the template has changed: %d requirements", n)
	}
}
