package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// session serves host processes, one after the other: one may end and another take its place.
type session struct {
	processes *processes
	host      *hostKernel   // nil: the kernel is the agent's own
	off       chan struct{} // closed: the guest must end

	mu  sync.Mutex
	pod *pod
}

func newSession(host *hostKernel) *session {
	return &session{processes: newProcesses(), host: host, off: make(chan struct{})}
}

// minPollPause is the initial pause between attempts to find a host.
const minPollPause = 4 * time.Millisecond

// serve serves hosts on the control port. The port stays open while no host is connected: after a restore, a VMM that
// sees the port reopened may not notice what the host has sent meanwhile (QEMU 7.2 does not until something else
// wakes it).
func (a *session) serve(port *os.File) {
	pause := minPollPause
	for {
		if err := wire.ServeGuest(port, a.handle); !errors.Is(err, io.EOF) {
			fmt.Println("nodeless agent: control port:", err)
		}
		// There is no way to wait for a host to connect. Frequent polling costs nothing before there is a pod, since the
		// guest is a template then, or about to get its pod.
		time.Sleep(pause)
		if _, err := a.current(); err == nil {
			pause = min(pause*3/2, 100*time.Millisecond)
		}
	}
}

// accept serves hosts on a listening socket.
func (a *session) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			fmt.Println("nodeless agent: control socket:", err)
			close(a.off)
			return
		}
		if err := wire.ServeGuest(conn, a.handle); !errors.Is(err, io.EOF) {
			fmt.Println("nodeless agent: control socket:", err)
		}
		_ = conn.Close()
	}
}

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
		return a.hello(), nil
	case wire.KindPing:
		if a.host != nil { // the clock is the host's
			return nil, nil
		}
		return with(request, setClock)
	case wire.KindStart:
		return with(request, a.start)
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
	case wire.KindAdd:
		return with(request, p.add)
	case wire.KindSupply:
		return with(request, p.supply)
	case wire.KindResize:
		return with(request, p.resize)
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

func (a *session) hello() (h wire.Hello) {
	if p, err := a.current(); err == nil {
		h.ID = p.spec.ID
	}
	return h
}

// start starts the pod. It does nothing if the host repeats the request because it did not get the answer.
func (a *session) start(spec wire.Pod) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pod != nil {
		if a.pod.spec.ID != spec.ID {
			return fmt.Errorf("this guest runs pod %s", a.pod.spec.ID)
		}
		return nil
	}
	a.pod = newPod(spec, a.processes, a.host)
	go a.pod.run()
	return nil
}

// setClock sets the guest's clock if it is off by more than a second.
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
