package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Limits of a session.
const (
	pingPeriod = 5 * time.Second
	maxEvents  = 256 // not taken yet; the oldest are dropped

	// So many times in a row updates are taken at once, and later once per pause: each time the queued ones together,
	// up to maxUpdates, since only the last says how the pod is now. The guest combines those that it cannot queue.
	updateBurst = 20
	updatePause = 50 * time.Millisecond
	maxUpdates  = 100
)

// session is a connection to a guest's agent through which the host follows the pod.
type session struct {
	vm   *VM
	conn *wire.Conn
}

// serveSession connects to the guest and serves the session until it ends. An error means that the VM is unusable;
// nil means that another session may begin.
func (vm *VM) serveSession(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, vm.host.config.BootLimit+vm.host.config.HangLimit)
	defer cancel()
	conn, err := vm.process.Dial(dialing)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the guest's agent does not answer: %w; the end of its console: %q", err, vm.process.LastWords())
	}
	if err != nil {
		return fmt.Errorf("the guest's agent does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	served := make(chan error, 1)
	go func() { served <- conn.Serve() }()
	s := session{vm, conn}
	if err := s.introduce(ctx); err != nil {
		return err
	}
	vm.setConn(conn)
	defer vm.setConn(nil)
	failed := make(chan error, 3)
	var work sync.WaitGroup
	defer work.Wait()
	for _, task := range []func() error{
		s.followStatus, func() error { return vm.store(conn) }, func() error { return s.ping(ctx) },
	} {
		work.Go(func() { failed <- task() })
	}
	defer func() { _ = conn.Close() }() // before waiting for the tasks
	var protocol *wire.ProtocolError
	select {
	case err := <-served:
		if errors.As(err, &protocol) {
			return fmt.Errorf("the guest was ended: %w", err)
		}
		return nil
	case err := <-failed:
		if errors.Is(err, wire.ErrClosed) && !errors.As(err, &protocol) {
			return nil
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// introduce checks the guest's identity and hands it its pod, unless it already has it.
func (s session) introduce(ctx context.Context) error {
	vm := s.vm
	ctx, cancel := context.WithTimeout(ctx, vm.host.config.HangLimit)
	defer cancel()
	var hello wire.Hello
	if err := s.conn.Call(ctx, wire.KindHello, nil, &hello); err != nil {
		return fmt.Errorf("the guest's agent does not answer: %w", err)
	}
	switch {
	case hello.ID == vm.record.ID:
		vm.pending = nil
		return nil
	case hello.ID == "" && vm.pending == nil:
		return errors.New("the guest has lost its pod: it has booted again")
	case hello.ID != "":
		return fmt.Errorf("the guest says it runs pod %.64q", hello.ID)
	}
	makeUnique(vm.pending)
	if err := s.conn.Call(ctx, wire.KindStart, vm.pending, nil); err != nil {
		return fmt.Errorf("start the pod: %w", err)
	}
	vm.pending = nil
	return vm.note(func(r *vmRecord) { r.Started = true })
}

// followStatus keeps the VM's status up to date.
func (s session) followStatus() error {
	watch, err := s.conn.Open(wire.KindWatch, nil)
	if err != nil {
		return err
	}
	limit := rate.NewLimiter(rate.Every(updatePause), updateBurst)
	for {
		select {
		case <-time.After(limit.Reserve().Delay()):
		case <-s.conn.Done():
		}
		u, err := s.takeUpdates(watch)
		if u != nil {
			vm := s.vm
			vm.update(func() {
				vm.status.Phase, vm.status.Pod, vm.status.Failure = Running, u.Status, u.Status.Failure
				vm.events = latest(append(vm.events, u.Events...))
			})
		}
		switch {
		case u != nil && u.Status.Done:
			return s.finish()
		case err != nil:
			return err
		}
	}
}

// takeUpdates waits for an update, and returns it and those then queued behind it as one, nil if none came before an
// error. What comes meanwhile is left, since a guest may send faster than its host reads.
func (s session) takeUpdates(watch *wire.Stream) (u *wire.Update, err error) {
	for left := 1; left > 0; left-- {
		it, err := watch.Receive()
		if err != nil {
			return u, err
		}
		if u == nil {
			left = min(maxUpdates, 1+watch.Queued())
		}
		next, err := wire.Message[wire.Update](it)
		if err != nil {
			return u, fmt.Errorf("the guest was ended: %w", err)
		}
		next.Restrict(s.vm.Containers())
		if u != nil {
			next.Events = append(u.Events, next.Events...)
		}
		next.Events = latest(next.Events)
		u = &next
	}
	return u, nil
}

// latest returns the events that are kept, without the memory of others.
func latest(events []wire.Event) []wire.Event {
	return slices.Clone(events[max(0, len(events)-maxEvents):])
}

// finish ends a VM whose pod has completed, to free its resources.
func (s session) finish() error {
	ctx, cancel := context.WithTimeout(s.vm.host.ctx, s.vm.host.config.HangLimit)
	defer cancel()
	// A log that cannot be stored in time, as on a full disk, does not change the pod's result.
	if err := s.conn.Call(ctx, wire.KindFlush, nil, nil); err != nil && ctx.Err() == nil {
		return err
	}
	s.vm.process.Kill()
	return wire.ErrClosed
}

// ping detects a hung agent, corrects the guest's clock and trims the console log.
func (s session) ping(ctx context.Context) error {
	limit := s.vm.host.config.HangLimit
	for {
		ctx, cancel := context.WithTimeout(ctx, limit)
		err := s.conn.Call(ctx, wire.KindPing, wire.Ping{UnixNano: time.Now().UnixNano()}, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the guest's agent has not answered for %s: it was taken for hung and ended", limit)
		}
		if err != nil {
			return err
		}
		s.vm.process.TrimConsole()
		select {
		case <-time.After(min(pingPeriod, limit)):
		case <-s.conn.Done():
			return wire.ErrClosed
		}
	}
}
