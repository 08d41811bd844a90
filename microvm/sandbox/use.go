package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// ErrNoSession is returned while the guest cannot be talked to: it boots, or is gone.
var ErrNoSession = errors.New("the guest cannot be reached")

// session waits for a session with the guest.
func (vm *VM) await(ctx context.Context) (*wire.Conn, error) {
	for {
		vm.mu.Lock()
		conn, changed := vm.conn, vm.changed
		vm.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-changed:
		case <-vm.ended:
			return nil, fmt.Errorf("pod %s: %w: its machine has ended", vm.ID(), ErrNoSession)
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s: %w: %w", vm.ID(), ErrNoSession, ctx.Err())
		}
	}
}

func (vm *VM) call(ctx context.Context, kind string, request, result any) error {
	conn, err := vm.await(ctx)
	if err != nil {
		return err
	}
	if err := conn.Call(ctx, kind, request, result); err != nil {
		return fmt.Errorf("pod %s: %w", vm.ID(), err)
	}
	return nil
}

// Stats of the guest and its containers.
func (vm *VM) Stats(ctx context.Context) (s wire.Stats, err error) {
	return s, vm.call(ctx, wire.KindStats, nil, &s)
}

// UpdateFiles replaces the files of a projected volume all at once.
func (vm *VM) UpdateFiles(ctx context.Context, v wire.Volume) error {
	return vm.call(ctx, wire.KindFiles, v, nil)
}

// Flush waits until all is stored that the guest's agent has read of what the containers have logged; of a container
// that has ended, that is all.
func (vm *VM) Flush(ctx context.Context) error {
	return vm.call(ctx, wire.KindFlush, nil, nil)
}

// Signal sends a signal to a container's first process.
func (vm *VM) Signal(ctx context.Context, container string, number int) error {
	return vm.call(ctx, wire.KindSignal, wire.Signal{Container: container, Number: number}, nil)
}

// Streams of an exec or attach; nil ones are not connected.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan wire.Size
}

// Exec runs a command in a container to its end and returns its exit code.
func (vm *VM) Exec(ctx context.Context, container string, args []string, tty bool, s Streams) (int, error) {
	return vm.interact(ctx, wire.KindExec, wire.Exec{
		Container: container, Args: args, TTY: tty, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil,
	}, s)
}

// Attach connects to a container's first process until it ends or ctx does.
func (vm *VM) Attach(ctx context.Context, container string, s Streams) error {
	_, err := vm.interact(ctx, wire.KindAttach,
		wire.Attach{Container: container, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil}, s)
	return err
}

func (vm *VM) interact(ctx context.Context, kind string, request any, s Streams) (int, error) {
	conn, err := vm.await(ctx)
	if err != nil {
		return 0, err
	}
	stream, err := conn.Open(kind, request)
	if err != nil {
		return 0, fmt.Errorf("pod %s: %s: %w", vm.ID(), kind, err)
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close)
	defer stop()
	if s.Stdin != nil {
		go func() { // ends with the reader, which is the caller's
			_, _ = io.Copy(stream.Writer(wire.Stdin), s.Stdin)
			_ = stream.End(wire.Stdin)
		}()
	}
	go func() {
		for {
			select {
			case size, ok := <-s.Resize:
				if !ok {
					return
				}
				_ = stream.SendMessage(size)
			case <-stream.Done():
				return
			}
		}
	}()
	for {
		it, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("pod %s: %s: %w", vm.ID(), kind, errors.Join(err, ctx.Err()))
		}
		to := s.Stdout
		if it.Channel == wire.Stderr {
			to = s.Stderr
		}
		if to != nil && len(it.Data) > 0 {
			if _, err := to.Write(it.Data); err != nil {
				return 0, err
			}
		}
	}
	var result wire.ExecResult
	if err := stream.Reply(&result); err != nil {
		return 0, fmt.Errorf("pod %s: %s: %w", vm.ID(), kind, err)
	}
	return result.Code, nil
}

// PortForward carries bytes between a connection and a port of the pod until either side ends. It closes conn.
func (vm *VM) PortForward(ctx context.Context, port int, conn io.ReadWriteCloser) error {
	defer func() { _ = conn.Close() }()
	session, err := vm.await(ctx)
	if err != nil {
		return err
	}
	stream, err := session.Open(wire.KindConnect, wire.Connect{Port: port})
	if err != nil {
		return fmt.Errorf("pod %s: %w", vm.ID(), err)
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close)
	defer stop()
	go func() {
		_, _ = io.Copy(stream.Writer(wire.Stdin), conn)
		_ = stream.End(wire.Stdin)
	}()
	for {
		it, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return stream.Reply(nil)
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(it.Data); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}

// Stop ends the pod within the grace period (negative: the pod's own) and then the machine. The VM stays known, with
// its status and logs, until it is removed. A pod that was never handed to its guest has nothing to end; one that was
// taken up a moment ago may have to be reached first. When ctx ends before, the machine is left as it is, with what
// its pod was told.
func (vm *VM) Stop(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		grace = vm.record.Grace
	}
	vm.mu.Lock()
	vm.stopping = true
	conn, begun := vm.conn, vm.record.Started
	vm.mu.Unlock()
	if vm.machine == nil {
		return nil
	}
	if conn == nil && begun && grace > 0 {
		reaching, cancel := context.WithTimeout(ctx, reachLimit)
		conn, _ = vm.await(reaching)
		cancel()
	}
	if conn != nil {
		stopping, cancel := context.WithTimeout(ctx, grace+vm.host.config.HangLimit)
		defer cancel()
		vm.sayStop(stopping, conn, grace)
	}
	if ctx.Err() == nil {
		vm.machine.Kill()
	}
	select {
	case <-vm.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sayStop has the guest end its pod, and waits until what it says of that has been heard: the last status ends the
// machine (finish).
func (vm *VM) sayStop(ctx context.Context, conn *wire.Conn, grace time.Duration) {
	if err := conn.Call(ctx, wire.KindStop, wire.Stop{Grace: grace}, nil); err != nil {
		return
	}
	select {
	case <-vm.machine.Done():
	case <-ctx.Done():
	}
}

// Remove ends the machine, if it still runs, and removes all traces of the VM.
func (vm *VM) Remove() {
	if vm.machine != nil {
		vm.machine.Kill()
	}
	select { // of a machine that was gone before, too, the end is noted in the directory that is to go
	case <-vm.ended:
	case <-vm.host.ctx.Done():
	}
	vm.host.forget(vm)
}
