package nodeclaim

import (
	"github.com/nodeless/nodeless/cloud"
)

// askOverlaid tells the cloud what NodeOverlays make of prices, and does not ask it for resources that it does not know of: the
// claim names only types that have them.
func (l *Lifecycle) askOverlaid(req *cloud.LaunchRequest) {
	f := l.o.World.Overlaid(req.Pool)
	if f == nil {
		return
	}
	req.Prices = f.Prices
	for _, more := range f.Capacity {
		for i, n := range more {
			if n > 0 {
				req.Requests[i] = 0
			}
		}
	}
}

// addOverlaid adds to a machine what NodeOverlays say that its type has besides: until its Node says so itself, pods that wait
// for it must count on it.
func (l *Lifecycle) addOverlaid(pool string, m *cloud.Instance) {
	f := l.o.World.Overlaid(pool)
	if f == nil {
		return
	}
	for i, n := range f.Capacity[m.Type] {
		if n > 0 {
			m.Capacity[i], m.Allocatable[i] = n, n
		}
	}
}
