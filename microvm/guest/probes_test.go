package guest

import (
	"testing"

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
