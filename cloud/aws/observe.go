package aws

import (
	"time"

	"github.com/nodeless/nodeless/cloud"
)

var _ cloud.Observed = (*Provider)(nil)

// Observe has the observer told of calls, batches and user data from now on.
func (p *Provider) Observe(o cloud.Observer) {
	p.observer = o
	p.instances.get.sent = func(waited time.Duration, size int) { o.Batch("describe_instances", waited, size) }
	p.instances.kill.sent = func(waited time.Duration, size int) { o.Batch("terminate_instances", waited, size) }
}

// called tells of a call that began at start; it is deferred.
func (p *Provider) called(method string, start time.Time, err *error) {
	if p.observer != nil {
		p.observer.Call(p.Name(), method, p.now().Sub(start), *err)
	}
}
