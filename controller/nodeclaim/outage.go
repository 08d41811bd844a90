package nodeclaim

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/events"
)

const (
	// firstRetry is the pause after the first failure to read the cloud's notices; it doubles up to maxRetry. A spot
	// instance is reclaimed two minutes after its notice, so a queue that answers again is soon read.
	firstRetry = 5 * time.Second
	maxRetry   = 30 * time.Second
	// outageRepeat is how often an outage is reported again: an event is kept for an hour.
	outageRepeat = 30 * time.Minute
)

// outage is a time during which the cloud's notices cannot be read. The zero value means that there is none.
type outage struct {
	since, reported time.Time
	cause           string        // the error of package cloud that was last reported; "" = another one
	pause           time.Duration // before the next attempt
}

// failed records a failure to read notices, and returns the pause before the next attempt. It is logged, and an event
// on each NodePool, when it begins, has another cause or has lasted long.
func (i *interrupter) failed(err error) time.Duration {
	now, o := i.now(), &i.outage
	cause := ""
	for _, sentinel := range []error{cloud.ErrUnauthorized, cloud.ErrThrottled} {
		if errors.Is(err, sentinel) {
			cause = sentinel.Error()
		}
	}
	began := o.since.IsZero()
	if began {
		o.since = now
	}
	o.pause = min(max(2*o.pause, firstRetry), maxRetry)
	if began || cause != o.cause || i.until(o.reported, outageRepeat) <= 0 {
		o.reported, o.cause = now, cause
		i.log.Warn("cannot read interruption notices; trying again", "since", o.since, "error", err)
		i.tellPools(corev1.EventTypeWarning, "InterruptionNoticesUnreadable",
			"Instances may be reclaimed without warning: "+err.Error())
	}
	return o.pause
}

// answered records that notices can be read, which ends an outage.
func (i *interrupter) answered() {
	if i.outage.since.IsZero() {
		return
	}
	i.log.Info("interruption notices can be read again", "since", i.outage.since)
	i.tellPools(corev1.EventTypeNormal, "InterruptionNoticesReadable", "Interruption notices can be read again")
	i.outage = outage{}
}

// tellPools records an event on all NodePools.
func (i *interrupter) tellPools(kind, reason, message string) {
	for _, pool := range i.cluster.NodePools() {
		i.recorder.Event(pool, kind, reason, events.Message(message))
	}
}
