package host

import (
	"context"
	"net"
	"time"
)

// doorAgain is how long it takes until the port of a microVM's kubelet API is tried again that another program has.
const doorAgain = 10 * time.Second

// openDoor serves the kubelet API of a microVM that has a port of its own, for as long as there is anything of it.
func (h *Host) openDoor(m *machine) {
	at := h.kubeletAt(m.record.address())
	if h.o.Kubelets == nil || !at.IsValid() {
		return
	}
	h.work.Go(func() {
		ctx, cancel := context.WithCancel(h.ctx)
		defer cancel()
		go func() {
			select {
			case <-m.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
		for told := false; ; told = true {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
			if err == nil {
				err = h.kubelet.Serve(ctx, l)
			}
			if ctx.Err() != nil {
				return
			}
			if !told {
				h.o.Log.Warn("there is no kubectl logs or exec for a pod; it is tried again", "pod", m.record.Namespace+"/"+m.record.Name, "error", err)
			}
			if !pause(ctx, doorAgain) {
				return
			}
		}
	})
}
