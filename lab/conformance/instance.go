package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// instance is a cluster in its own network namespace, run by a child process of the same program. The child reads the
// texts of specs from its standard input and writes messages to its standard output, both as JSON; it ends when its
// input ends.
type instance struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	enc  *json.Encoder
	dec  *json.Decoder
	log  *os.File
}

// message is a message from an instance.
type message struct {
	Ready  bool    `json:"ready,omitempty"`
	Result *result `json:"result,omitempty"`
}

// stopLimit is how long an instance may take to stop everything it has started.
const stopLimit = 30 * time.Second

// startInstance returns a cluster that is ready for specs.
func startInstance(ctx context.Context, o options, name string) (*instance, error) {
	dir := filepath.Join(o.dir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &instance{name: name}
	if i.log, err = os.Create(filepath.Join(dir, "instance.log")); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	config, err := json.Marshal(insideOptions{
		Suite: o.suite.name, Root: o.root, Dir: dir, Nodeless: o.nodeless, Controller: o.controller, EC2: o.ec2,
		Limit: o.limit,
	})
	if err != nil {
		return nil, err
	}
	i.cmd = exec.Command(self, insideCommand, string(config)) //nolint:noctx // it ends with its input, in good order
	i.cmd.Stderr, i.cmd.SysProcAttr = i.log, ownNetwork()
	if i.in, err = i.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	i.enc, i.dec = json.NewEncoder(i.in), json.NewDecoder(out)
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: start in a network namespace of its own: %w; it needs root or user namespaces", name, err)
	}
	if m, err := i.receive(ctx); err != nil || !m.Ready {
		i.stop()
		return nil, fmt.Errorf("%s did not come up: %w", name, errors.Join(err, i.lastWords()))
	}
	return i, nil
}

// run runs one spec. An error means that the instance is no longer usable.
func (i *instance) run(ctx context.Context, text string) (result, error) {
	if err := i.enc.Encode(text); err != nil {
		return result{Spec: text}, fmt.Errorf("%s: %w", i.name, errors.Join(err, i.lastWords()))
	}
	m, err := i.receive(ctx)
	if err != nil || m.Result == nil {
		return result{Spec: text}, fmt.Errorf("%s ended: %w", i.name, errors.Join(err, i.lastWords()))
	}
	return *m.Result, nil
}

// receive waits for the next message. When ctx is done, it closes the instance's input, which makes the instance end.
func (i *instance) receive(ctx context.Context) (message, error) {
	defer context.AfterFunc(ctx, func() { _ = i.in.Close() })()
	var m message
	err := i.dec.Decode(&m)
	return m, err
}

// lastWords returns the last line that the instance logged.
func (i *instance) lastWords() error {
	data, err := os.ReadFile(i.log.Name())
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return fmt.Errorf("%s; see %s", lines[len(lines)-1], i.log.Name())
}

// stop stops the instance and everything in it.
func (i *instance) stop() {
	_ = i.in.Close()
	killer := time.AfterFunc(stopLimit, i.kill)
	_ = i.cmd.Wait()
	killer.Stop()
	i.kill() // the rest of its process group
	_ = i.log.Close()
}

func (i *instance) kill() { _ = syscall.Kill(-i.cmd.Process.Pid, syscall.SIGKILL) }
