package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const qmpFile = "qmp.sock"

// qmp is a connection to QEMU's monitor (QEMU Machine Protocol Specification).
type qmp struct {
	conn net.Conn
	in   *json.Decoder
}

// dialQMP connects to the monitor, and excludes the guest's memory from device states, since it has its own file.
func dialQMP(ctx context.Context, dir string) (*qmp, error) {
	conn, err := dialUnix(ctx, filepath.Join(dir, qmpFile))
	if err != nil {
		return nil, fmt.Errorf("connect to the VMM's monitor: %w", err)
	}
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	q := &qmp{conn, json.NewDecoder(conn)}
	var greeting any
	err = q.in.Decode(&greeting)
	if err == nil {
		err = q.execute("qmp_capabilities", nil, nil)
	}
	if err == nil {
		err = q.execute("migrate-set-capabilities", map[string]any{
			"capabilities": []any{map[string]any{"capability": "x-ignore-shared", "state": true}},
		}, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the VMM's monitor: %w", err)
	}
	return q, nil
}

// pass passes an open file to QEMU, which can then open it as /dev/fdset/SET.
func (q *qmp) pass(f *os.File, set int) error {
	conn, ok := q.conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("the VMM's monitor is no Unix socket, but %T", q.conn)
	}
	request, err := json.Marshal(map[string]any{"execute": "add-fd", "arguments": map[string]any{"fdset-id": set}})
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix(append(request, '\n'), unix.UnixRights(int(f.Fd())), nil); err != nil {
		return fmt.Errorf("add-fd: %w", err)
	}
	return q.answer("add-fd", nil)
}

// execute executes a command and decodes its result, unless result is nil.
func (q *qmp) execute(command string, arguments, result any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return q.answer(command, result)
}

// answer waits for the answer to a command and decodes its result, unless result is nil.
func (q *qmp) answer(command string, result any) error {
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
		}
		if err := q.in.Decode(&answer); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case answer.Return == nil: // an event
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Return, result)
		}
	}
}

// awaitMonitor waits until QEMU has set the VM up: it opens its sockets before it takes the guest's memory. If the VM
// waits for a device state it then loads that from one of QEMU's descriptors; 0 means none.
func (p *Process) awaitMonitor(descriptor int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	q, err := dialQMP(ctx, p.dir)
	if err != nil {
		return err
	}
	defer func() { _ = q.conn.Close() }()
	if descriptor == 0 {
		return nil
	}
	return q.loadState(ctx, descriptor)
}

// loadState makes a VM that waits for a device state read it from one of QEMU's descriptors, and waits until the VM
// runs.
func (q *qmp) loadState(ctx context.Context, descriptor int) error {
	if err := q.execute("migrate-incoming", map[string]any{"uri": fmt.Sprintf("fd:%d", descriptor)}, nil); err != nil {
		return err
	}
	// Wait: the guest would not notice a connection to the control port made before the state is loaded.
	for {
		var vm struct {
			Status string `json:"status"`
		}
		if err := q.execute("query-status", nil, &vm); err != nil {
			return err
		}
		switch {
		case vm.Status == "running":
			return nil
		case vm.Status != "inmigrate" || !retry(ctx):
			return fmt.Errorf("restore the VM: it is %q", vm.Status)
		}
	}
}

// saveState writes the device state of a running VM to a file and leaves the VM stopped. Its memory is already in a
// shared file.
func saveState(ctx context.Context, dir, path string) error {
	q, err := dialQMP(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = q.conn.Close() }()
	const socket = "state.sock"
	l, err := net.Listen("unix", filepath.Join(dir, socket)) //nolint:noctx // a file; it does not wait
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	received := make(chan error, 1)
	go func() { received <- receive(l, path) }()
	if err := q.execute("migrate", map[string]any{"uri": "unix:" + socket}, nil); err != nil {
		return err
	}
	for {
		var info struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := q.execute("query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed":
			return <-received
		case "failed", "cancelled":
			return fmt.Errorf("save the VM's state: %s %s", info.Status, info.Error)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// receive copies the data of the first connection to a file.
func receive(l net.Listener, path string) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, conn)
	return errors.Join(err, f.Close())
}
