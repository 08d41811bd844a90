package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nodeless/nodeless/lab/process"
)

// insideCommand is the command with which this program runs itself for a cluster.
const insideCommand = "inside"

// insideOptions are the options of a cluster's process.
type insideOptions struct {
	Suite, Root, Dir, Nodeless, Controller string
	EC2                                    bool
	Limit                                  time.Duration
}

// cluster holds the processes that run in their own network namespace.
type cluster struct {
	o          insideOptions
	suite      suite
	session    process.Session
	up         *process.Process
	controller *process.Process
}

// inside starts a cluster and runs the specs that arrive on standard input until its end.
func inside(_ context.Context, args []string) error {
	ctx, cancel := context.WithCancelCause(context.Background()) // ended by the end of the input, not by a signal
	defer cancel(nil)
	if len(args) != 1 {
		return errors.New("inside: for this program's own use")
	}
	c := &cluster{}
	if err := json.Unmarshal([]byte(args[0]), &c.o); err != nil {
		return fmt.Errorf("inside: %w", err)
	}
	c.suite = suites[c.o.Suite]
	specs := make(chan string)
	go func() {
		defer cancel(io.EOF)
		for in := json.NewDecoder(os.Stdin); ; {
			var text string
			if in.Decode(&text) != nil {
				return
			}
			specs <- text
		}
	}()
	defer c.stop()
	if err := c.begin(ctx); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(message{Ready: true}); err != nil {
		return err
	}
	for {
		select {
		case text := <-specs:
			r := c.run(ctx, text)
			if err := out.Encode(message{Result: &r}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// startLimit is generous: at a load of 30, the control plane alone took 27 s.
const startLimit = 4 * time.Minute

// begin starts the parts of the cluster.
func (c *cluster) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	if err := errors.Join(takeName(), raiseLoopback()); err != nil {
		return err
	}
	if err := serveKubelet(); err != nil {
		return err
	}
	if err := c.startUp(ctx); err != nil {
		return err
	}
	if err := c.furnish(ctx); err != nil {
		return err
	}
	return c.startController(ctx)
}

// stop stops the controller first, so that it does not see the cluster vanish.
func (c *cluster) stop() {
	for _, p := range []*process.Process{c.controller, c.up} {
		if p != nil {
			p.Stop(10 * time.Second)
		}
	}
	_ = os.RemoveAll(filepath.Join(c.o.Dir, "data")) // keep the logs, but not gigabytes of etcd data
}

// run runs one spec in its own process.
func (c *cluster) run(ctx context.Context, text string) result {
	r := result{Spec: text, Logs: filepath.Join(filepath.Dir(c.o.Dir), folder(text))}
	began := time.Now()
	if err := c.runIn(ctx, &r); err != nil {
		r.Passed, r.Failure = false, err.Error()
	}
	if r.Took == 0 {
		r.Took = time.Since(began)
	}
	return r
}

func (c *cluster) runIn(ctx context.Context, r *result) error {
	if err := os.MkdirAll(r.Logs, 0o700); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.Logs, "suite.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cut, err := c.follow(r.Logs)
	if err != nil {
		return err
	}
	defer cut()
	report := filepath.Join(r.Logs, "report.json")
	test := c.test(r.Spec, report)
	test.Stdout, test.Stderr, test.Dir = out, out, r.Logs
	test.Env = append(os.Environ(), "KUBECONFIG="+c.session.Kubeconfig, "OUTPUT_DIR="+r.Logs)
	if err := test.Start(); err != nil {
		return fmt.Errorf("start the suite: %w", err)
	}
	if err := c.wait(ctx, test); err != nil {
		return err
	}
	r.judge(report)
	if r.Passed && c.suite.name == "performance" {
		return measured(r.Logs)
	}
	return nil
}

// test returns the command that runs one spec with the suite's program.
func (c *cluster) test(text, report string) *exec.Cmd {
	args := []string{
		"--ginkgo.focus=^" + quote(c.suite.title+" "+text) + "$", "--ginkgo.json-report=" + report,
		"--ginkgo.vv", "--ginkgo.no-color", "--ginkgo.timeout=3h", "-test.timeout=3h",
	}
	if c.o.EC2 {
		args = append(args,
			"-default-nodeclass="+filepath.Join(c.o.Root, "lab", "conformance", "ec2", "nodeclass.yaml"),
			"-default-nodepool="+filepath.Join(c.o.Root, "lab", "conformance", "ec2", ec2Pool(text)))
	}
	cmd := exec.Command(filepath.Join(c.o.Root, "bin", c.suite.name+".test"), args...) //nolint:noctx // ended by wait
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// ec2Pool returns the file of the pool for a spec. The CapacityBuffer specs expect a node for each of their pods of 1
// CPU; of EC2's types, one of 4 CPUs would hold two of them at no higher price.
func ec2Pool(text string) string {
	if strings.HasPrefix(text, "CapacityBuffer ") {
		return "nodepool-two-cpus.yaml"
	}
	return "nodepool.yaml"
}

// wait waits for the suite to end. The spec has failed if the controller or the control plane ends first.
func (c *cluster) wait(ctx context.Context, test *exec.Cmd) error {
	done := make(chan struct{})
	go func() {
		_ = test.Wait() // the report says more than the exit code
		close(done)
	}()
	var late <-chan time.Time
	if c.o.Limit > 0 {
		late = time.After(c.o.Limit)
	}
	var err error
	select {
	case <-done:
		return nil
	case <-late:
		err = fmt.Errorf("no result after %s", c.o.Limit)
	case <-c.controller.Done():
		err = c.controller.Exited()
	case <-c.up.Done():
		err = c.up.Exited()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = test.Process.Kill()
	<-done
	return err
}
