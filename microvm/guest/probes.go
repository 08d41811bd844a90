package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// lead runs a run's postStart hook and its probes.
func (r *run) lead() {
	c := r.c
	if r.spec.PostStart != nil {
		if err := r.hook(r.ctx, *r.spec.PostStart); err != nil && r.ctx.Err() == nil {
			r.warn("FailedPostStartHook", "PostStartHook failed: "+err.Error())
			go r.end(c.pod.spec.GracePeriod, "FailedPostStartHook")
			return
		}
	}
	if p := r.spec.StartupProbe; p != nil && !r.probe("Startup", *p, func(ok bool) bool { return ok }) {
		return
	}
	c.pod.update(func() {
		if c.run == r {
			c.status.StartupDone = true
			c.status.Ready = r.spec.ReadinessProbe == nil && c.spec.Kind != wire.KindInit // init containers: when they end
		}
	})
	if p := r.spec.LivenessProbe; p != nil {
		go r.probe("Liveness", *p, func(bool) bool { return false })
	}
	if p := r.spec.ReadinessProbe; p != nil {
		r.probe("Readiness", *p, func(ok bool) bool {
			c.pod.update(func() {
				if c.run == r {
					c.status.Ready = ok
				}
			})
			return false
		})
	}
}

// hook performs the action of a hook. As with a kubelet, any answer to an HTTP request is a success.
func (r *run) hook(ctx context.Context, a wire.Action) error {
	err := r.act(ctx, a)
	told, status := warning(""), badStatus(0)
	if errors.As(err, &told) || errors.As(err, &status) {
		return nil
	}
	return err
}

func (r *run) warn(reason, message string) {
	r.c.pod.update(func() {
		if r.c.run == r {
			r.c.pod.event(wire.Event{Container: r.c.spec.Name, Warning: true, Reason: reason, Message: message})
		}
	})
}

// probe probes periodically, and passes each verdict that reaches its threshold to result until that returns true. A
// failed startup or liveness probe ends the run. probe reports whether result ended the probing. As with a kubelet, the
// initial delay counts from the start of the run, and a probe that cannot be performed says nothing of the container's
// health (pkg/kubelet/prober, Kubernetes 1.36).
func (r *run) probe(name string, p wire.Probe, result func(ok bool) bool) bool {
	if !r.pause(p.InitialDelay - time.Since(r.began)) {
		return false
	}
	good, bad := 0, 0
	for {
		ctx, cancel := context.WithTimeout(r.ctx, p.Timeout)
		err := r.act(ctx, p.Action)
		cancel()
		if r.ctx.Err() != nil {
			return false
		}
		told, unknown := warning(""), unperformed{}
		switch {
		case errors.As(err, &unknown): // neither a success nor a failure
			r.warn("Unhealthy", fmt.Sprintf("%s probe errored and resulted in unknown state: %s", name, err))
		case errors.As(err, &told):
			r.warn("ProbeWarning", fmt.Sprintf("%s probe warning: %s", name, told))
			good, bad = good+1, 0
		case err == nil:
			good, bad = good+1, 0
		default:
			good, bad = 0, bad+1
			r.warn("Unhealthy", fmt.Sprintf("%s probe failed: %s", name, err))
		}
		switch {
		case good >= p.SuccessThreshold:
			if result(true) {
				return true
			}
		case bad >= p.FailureThreshold && name == "Readiness":
			result(false)
		case bad >= p.FailureThreshold:
			r.endUnhealthy(name, p)
			return false
		}
		if !r.pause(p.Period) {
			return false
		}
	}
}

// endUnhealthy begins to end a run whose startup or liveness probe has failed.
func (r *run) endUnhealthy(name string, p wire.Probe) {
	r.unhealthy.Store(true)
	why := fmt.Sprintf("Container %s failed %s probe", r.c.spec.Name, strings.ToLower(name))
	if r.c.policy() != wire.RestartNever {
		why += ", will be restarted"
	}
	go r.end(r.probeGrace(p), why)
}

func (r *run) probeGrace(p wire.Probe) time.Duration {
	if p.GracePeriod != nil {
		return *p.GracePeriod
	}
	return r.c.pod.spec.GracePeriod
}

// pause waits. It returns false if the run ends first.
func (r *run) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ctx.Done():
		return false
	}
}
