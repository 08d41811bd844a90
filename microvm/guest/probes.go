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
	if c.spec.PostStart != nil {
		if err := r.hook(r.ctx, *c.spec.PostStart); err != nil && r.ctx.Err() == nil {
			r.warn("FailedPostStartHook", "PostStartHook failed: "+err.Error())
			go r.end(c.pod.spec.GracePeriod, "FailedPostStartHook")
			return
		}
	}
	if p := c.spec.StartupProbe; p != nil && !r.probe("Startup", *p, func(ok bool) bool { return ok }) {
		return
	}
	c.pod.update(func() {
		if c.run == r {
			c.status.StartupDone = true
			c.status.Ready = c.spec.ReadinessProbe == nil && c.spec.Kind != wire.KindInit // init containers: when they end
		}
	})
	if p := c.spec.LivenessProbe; p != nil {
		go r.probe("Liveness", *p, func(bool) bool { return false })
	}
	if p := c.spec.ReadinessProbe; p != nil {
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
// failed startup or liveness probe ends the run. probe reports whether result ended the probing.
func (r *run) probe(name string, p wire.Probe, result func(ok bool) bool) bool {
	if !r.pause(p.InitialDelay) {
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
		if told := warning(""); errors.As(err, &told) {
			r.warn("ProbeWarning", fmt.Sprintf("%s probe warning: %s", name, told))
			err = nil
		}
		if err == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
			r.warn("Unhealthy", fmt.Sprintf("%s probe failed: %s", name, err))
		}
		switch {
		case err == nil && good >= p.SuccessThreshold:
			if result(true) {
				return true
			}
		case err != nil && bad >= p.FailureThreshold:
			if name != "Readiness" {
				go r.end(r.probeGrace(p),
					fmt.Sprintf("Container %s failed %s probe, will be restarted", r.c.spec.Name, strings.ToLower(name)))
				return false
			}
			result(false)
		}
		if !r.pause(p.Period) {
			return false
		}
	}
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
