package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// session answers hosts, one after the other: a host process may end and another take its place.
type session struct {
	processes *processes
	ground    *ground       // nil: the kernel is the agent's own
	off       chan struct{} // closed: the guest is to end
	offOnce   sync.Once

	mu  sync.Mutex
	pod *pod
}

// eager is how soon the agent looks for a host again.
const eager = 4 * time.Millisecond

// serve answers hosts on the control port. The port stays open while no host is connected: a VMM that sees it opened
// anew after a restore may not look at what the host has sent meanwhile (QEMU 7.2 does not until something else wakes
// it).
func (a *session) serve(port *os.File) {
	pause := eager
	for {
		if err := wire.ServeGuest(port, a.handle); !errors.Is(err, io.EOF) {
			fmt.Println("nodeless agent: control port:", err)
		}
		// No host is connected, and a port on which none is cannot be waited for: look again soon. Before there is a pod
		// that costs nothing, since such a guest is a template, or about to get its pod; later less often.
		time.Sleep(pause)
		if _, err := a.current(); err == nil {
			pause = min(pause*3/2, 100*time.Millisecond)
		}
	}
}

// accept answers hosts on a listening socket.
func (a *session) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			fmt.Println("nodeless agent: control socket:", err)
			a.end()
			return
		}
		if err := wire.ServeGuest(conn, a.handle); !errors.Is(err, io.EOF) {
			fmt.Println("nodeless agent: control socket:", err)
		}
		_ = conn.Close()
	}
}

func (a *session) end() { a.offOnce.Do(func() { close(a.off) }) }

func (a *session) current() (*pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pod == nil {
		return nil, errors.New("no pod was started in this guest")
	}
	return a.pod, nil
}

func (a *session) handle(s *wire.Stream, kind string, request json.RawMessage) (any, error) {
	switch kind {
	case wire.KindHello:
		return a.hello()
	case wire.KindPing:
		if a.ground != nil { // the clock is the host's
			return nil, nil
		}
		return with(request, setClock)
	case wire.KindStart:
		return with(request, a.start)
	case wire.KindPowerOff:
		a.end()
		return nil, nil
	}
	p, err := a.current()
	if err != nil {
		return nil, err
	}
	switch kind {
	case wire.KindWatch:
		return nil, p.watch(s)
	case wire.KindLogs:
		return with(request, func(r wire.LogsRequest) error { return p.logs.follow(s, r.After) })
	case wire.KindFlush:
		return nil, p.logs.flush(p.logs.newest(), s.Done())
	case wire.KindExec:
		return withResult(request, func(r wire.Exec) (wire.ExecResult, error) { return p.exec(s, r) })
	case wire.KindAttach:
		return withResult(request, func(r wire.Attach) (wire.ExecResult, error) { return p.attach(s, r) })
	case wire.KindConnect:
		return with(request, func(r wire.Connect) error { return connect(s, r) })
	case wire.KindStats:
		return p.stats()
	case wire.KindFiles:
		return with(request, p.updateFiles)
	case wire.KindSignal:
		return with(request, p.signal)
	case wire.KindStop:
		return with(request, func(r wire.Stop) error { p.stop(r.Grace); return nil })
	}
	return nil, fmt.Errorf("the guest agent knows no request %q", kind)
}

func with[T any](request json.RawMessage, do func(T) error) (any, error) {
	return withResult(request, func(v T) (any, error) { return nil, do(v) })
}

func withResult[T, R any](request json.RawMessage, do func(T) (R, error)) (any, error) {
	var v T
	if err := json.Unmarshal(request, &v); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	return do(v)
}

func (a *session) hello() (wire.Hello, error) {
	var info unix.Sysinfo_t
	var name unix.Utsname
	if err := errors.Join(unix.Sysinfo(&info), unix.Uname(&name)); err != nil {
		return wire.Hello{}, err
	}
	h := wire.Hello{
		MemoryBytes: int64(info.Totalram) * int64(info.Unit), CPUs: runtime.NumCPU(),
		Kernel: unix.ByteSliceToString(name.Release[:]),
	}
	if p, err := a.current(); err == nil {
		h.ID = p.spec.ID
	}
	return h, nil
}

// start takes the pod on. Told again by a host that did not hear the answer, it is the same pod and nothing happens.
func (a *session) start(spec wire.Pod) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pod != nil {
		if a.pod.spec.ID != spec.ID {
			return fmt.Errorf("this guest runs pod %s", a.pod.spec.ID)
		}
		return nil
	}
	a.pod = newPod(spec, a.processes, a.ground)
	go a.pod.run()
	return nil
}

// setClock moves the guest's clock when it is more than a second off.
func setClock(p wire.Ping) error {
	if off := time.Until(time.Unix(0, p.UnixNano)); off.Abs() > time.Second {
		return stepClock(p.UnixNano)
	}
	return nil
}

func stepClock(unixNano int64) error {
	t := unix.NsecToTimespec(unixNano)
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &t); err != nil {
		return fmt.Errorf("set the guest's clock: %w", err)
	}
	return nil
}
