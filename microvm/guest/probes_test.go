package guest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// A container without a probe is ready as soon as it runs, and an init container once it has ended, as with a
// kubelet.
func TestReadyWithoutProbe(t *testing.T) {
	p := newPod(wire.Pod{Containers: []wire.Container{
		{Name: "init", Kind: wire.KindInit}, {Name: "sidecar", Kind: wire.KindSidecar}, {Name: "main"},
	}}, nil, nil)
	for i, want := range []bool{false, true, true} {
		c := p.containers[i]
		c.run = &run{c: c, ctx: t.Context()}
		c.run.lead()
		if c.status.Ready != want || !c.status.StartupDone {
			t.Errorf("%s runs: %+v, want ready: %t", c.spec.Name, c.status, want)
		}
	}
}

// probed is the run of a container that is only probed: it has no process.
func probed(t *testing.T, pod wire.Pod) *run {
	t.Helper()
	p := newPod(pod, nil, nil)
	c := p.containers[0]
	c.run = &run{c: c, spec: c.spec, ctx: t.Context(), began: time.Now(), exited: make(chan struct{}), cgroup: t.TempDir()}
	return c.run
}

// eventTexts returns the reasons and messages of the events so far.
func eventTexts(p *pod) (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		texts = append(texts, e.Reason+": "+e.Message)
	}
	return texts
}

// A kubelet restarts a container that failed its liveness or startup probe unless its policy is Never, however its
// process then ends.
func TestAnUnhealthyContainerRunsAgain(t *testing.T) {
	failing := &wire.Probe{
		Action: wire.Action{Sleep: time.Hour}, Timeout: time.Second, Period: time.Second, SuccessThreshold: 1,
		FailureThreshold: 1,
	}
	for _, c := range []struct {
		policy, own wire.RestartPolicy
		startup     bool
		message     string
		codes       string // those of 0 and 3 after which it runs again
	}{
		{wire.RestartOnFailure, "", false, "Container c failed liveness probe, will be restarted", "03"},
		{wire.RestartOnFailure, "", true, "Container c failed startup probe, will be restarted", "03"},
		{wire.RestartNever, wire.RestartAlways, false, "Container c failed liveness probe, will be restarted", "03"},
		{wire.RestartNever, "", false, "Container c failed liveness probe", "3"}, // by a rule
		{wire.RestartAlways, wire.RestartNever, true, "Container c failed startup probe", "3"},
	} {
		synctest.Test(t, func(t *testing.T) {
			spec := wire.Container{
				Name: "c", Kind: wire.KindRegular, RestartPolicy: c.own, RestartRules: []wire.RestartRule{{Codes: []int{3}}},
				LivenessProbe: failing,
			}
			if c.startup {
				spec.StartupProbe = failing
			}
			r := probed(t, wire.Pod{RestartPolicy: c.policy, Containers: []wire.Container{spec}})
			go r.lead()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := eventTexts(r.c.pod); !slices.Contains(got, "Killing: "+c.message) {
				t.Errorf("%+v: %q", c, got)
			}
			again := ""
			for _, code := range []int{0, 3} {
				if r.c.conclude(&wire.Exit{Code: code}, r.unhealthy.Load()) {
					again += strconv.Itoa(code)
				}
			}
			if again != c.codes {
				t.Errorf("%+v: it runs again after %q", c, again)
			}
			close(r.exited)
		})
	}
}

// As with a kubelet, a probe that cannot be performed is neither a success nor a failure, but a hook fails.
func TestAProbeThatCannotBePerformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		impossible := wire.Action{Invalid: `port "web" is none of the container's`}
		probe := &wire.Probe{
			Action: impossible, Timeout: time.Second, Period: time.Second, SuccessThreshold: 1, FailureThreshold: 1,
		}
		r := probed(t, wire.Pod{RestartPolicy: wire.RestartAlways, Containers: []wire.Container{
			{Name: "c", Kind: wire.KindRegular, LivenessProbe: probe, ReadinessProbe: probe},
		}})
		go r.lead()
		time.Sleep(time.Minute)
		synctest.Wait()
		got := eventTexts(r.c.pod)
		if want := `Unhealthy: Liveness probe errored and resulted in unknown state: port "web"`; len(got) == 0 ||
			slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "Killing") }) ||
			!slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, want) }) {
			t.Errorf("%d events: %.300q", len(got), got)
		}
		if s := r.c.status; s.Ready || !s.StartupDone || r.unhealthy.Load() {
			t.Errorf("%+v", s)
		}
		if err := r.hook(t.Context(), impossible); err == nil {
			t.Error("a hook that cannot be performed succeeds")
		}
	})
}

// The initial delay of every probe counts from the start of the container, not from the end of its startup probe.
func TestInitialDelayCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &wire.Probe{
			Action: wire.Action{Sleep: 8 * time.Second}, Timeout: time.Minute, Period: time.Second, SuccessThreshold: 1,
			FailureThreshold: 1,
		}
		ready := &wire.Probe{
			InitialDelay: 10 * time.Second, Timeout: time.Minute, Period: time.Second, SuccessThreshold: 1, FailureThreshold: 1,
		}
		r := probed(t, wire.Pod{Containers: []wire.Container{
			{Name: "c", Kind: wire.KindRegular, StartupProbe: slow, ReadinessProbe: ready},
		}})
		go r.lead()
		for _, c := range []struct {
			after time.Duration
			ready bool
		}{{9 * time.Second, false}, {2 * time.Second, true}} {
			time.Sleep(c.after)
			synctest.Wait()
			r.c.pod.mu.Lock()
			if r.c.status.Ready != c.ready {
				t.Errorf("%s after the start: ready %t", time.Since(r.began), r.c.status.Ready)
			}
			r.c.pod.mu.Unlock()
		}
	})
}
