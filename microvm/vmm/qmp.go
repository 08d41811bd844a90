package vmm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

const qmpFile = "qmp.sock"

// qmp is a connection to QEMU's monitor (QMP, "QEMU Machine Protocol Specification").
type qmp struct {
	conn net.Conn
	in   *json.Decoder
}

func dialQMP(ctx context.Context, dir string) (*qmp, error) {
	conn, err := dialUnix(ctx, filepath.Join(dir, qmpFile))
	if err != nil {
		return nil, err
	}
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	q := &qmp{conn, json.NewDecoder(conn)}
	var greeting any
	if err := q.in.Decode(&greeting); err != nil {
		return nil, err
	}
	return q, q.do("qmp_capabilities", nil, nil)
}

func (q *qmp) do(command string, arguments, result any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
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

// ignoreShared leaves the memory out of a device state: it is in a file of its own.
func (q *qmp) ignoreShared() error {
	return q.do("migrate-set-capabilities", map[string]any{
		"capabilities": []any{map[string]any{"capability": "x-ignore-shared", "state": true}},
	}, nil)
}

// loadState makes a machine that waits for a device state take it from one of its descriptors. It then runs.
func loadState(dir string, descriptor int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	q, err := dialQMP(ctx, dir)
	if err != nil {
		return fmt.Errorf("connect to the VMM's monitor: %w", err)
	}
	defer func() { _ = q.conn.Close() }()
	if err := q.ignoreShared(); err != nil {
		return err
	}
	if err := q.do("migrate-incoming", map[string]any{"uri": fmt.Sprintf("fd:%d", descriptor)}, nil); err != nil {
		return err
	}
	// A connection to the control port before the state is there would go unnoticed by the guest.
	for {
		var vm struct {
			Status string `json:"status"`
		}
		if err := q.do("query-status", nil, &vm); err != nil {
			return err
		}
		switch {
		case vm.Status == "running":
			return nil
		case vm.Status != "inmigrate" || !again(ctx):
			return fmt.Errorf("restore the machine: it is %q", vm.Status)
		}
	}
}

// saveState writes the state of a running machine's devices to a file and leaves the machine stopped. Its memory is
// in a shared file already.
func saveState(ctx context.Context, dir, path string) error {
	q, err := dialQMP(ctx, dir)
	if err != nil {
		return fmt.Errorf("connect to the VMM's monitor: %w", err)
	}
	defer func() { _ = q.conn.Close() }()
	if err := q.ignoreShared(); err != nil {
		return err
	}
	const socket = "state.sock"
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	received := make(chan error, 1)
	go func() { received <- receive(l, path) }()
	if err := q.do("migrate", map[string]any{"uri": "unix:" + socket}, nil); err != nil {
		return err
	}
	for {
		var info struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := q.do("query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed":
			return <-received
		case "failed", "cancelled":
			return fmt.Errorf("save the machine's state: %s %s", info.Status, info.Error)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

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
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
