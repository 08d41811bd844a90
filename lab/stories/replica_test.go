package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replica is one of several `nodeless run` against the same cluster. Like a Deployment's pod it is restarted when it
// ends.
type replica struct {
	c    *cluster
	name string
	args []string
	env  []string
	over chan struct{} // closed when it must not be restarted
	done chan struct{} // closed when it has stopped for good

	end sync.Once
	mu  sync.Mutex
	cmd *exec.Cmd
}

// replica starts a controller that takes part in leader election, with further arguments, and stops it when the test
// ends.
func (c *cluster) replica(name string, more ...string) *replica {
	return c.newReplica(name, more...).begin()
}

// newReplica returns a replica that has not been started.
func (c *cluster) newReplica(name string, more ...string) *replica {
	return &replica{
		c: c, name: name, over: make(chan struct{}), done: make(chan struct{}),
		args: append([]string{
			"run", "--kubeconfig", c.Session.Kubeconfig, "--cluster-name", "nodeless", "--interruption-queue", "nodeless",
			"--leader-elect",
			"--metrics-port", "0", "--health-probe-port", "0",
		}, more...),
		env: append(c.environment(), "AWS_ENDPOINT_URL="+c.Session.RegionURL),
	}
}

// begin runs the replica until the test ends.
func (r *replica) begin() *replica {
	go r.supervise()
	r.c.t.Cleanup(r.stop)
	return r
}

func (r *replica) supervise() {
	defer close(r.done)
	for {
		if err := r.runOnce(); err != nil {
			r.c.t.Logf("replica %s: %v", r.name, err)
		}
		select {
		case <-r.over:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *replica) logFile() string { return filepath.Join(r.c.home, "replica-"+r.name+".log") }

// runOnce runs the process once. Its exit status does not matter: it gets killed.
func (r *replica) runOnce() error {
	log, err := os.OpenFile(r.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, r.args...)
	cmd.Env = r.env
	cmd.Stdout, cmd.Stderr = log, log
	r.mu.Lock()
	select {
	case <-r.over:
		r.mu.Unlock()
		return nil
	default:
	}
	err = cmd.Start()
	r.cmd = cmd
	r.mu.Unlock()
	if err != nil {
		return err
	}
	_ = cmd.Wait()
	return nil
}

// signal sends a signal to the running process.
func (r *replica) signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Signal(sig)
	}
}

func (r *replica) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.cmd.Process == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// stop stops the replica for good.
func (r *replica) stop() { r.end.Do(r.stopOnce) }

func (r *replica) stopOnce() {
	r.mu.Lock()
	close(r.over)
	r.mu.Unlock()
	r.signal(syscall.SIGTERM)
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.signal(syscall.SIGKILL)
		<-r.done
		r.c.t.Errorf("replica %s did not end within a minute of SIGTERM", r.name)
	}
	if r.c.t.Failed() {
		data, _ := os.ReadFile(r.logFile())
		r.c.t.Logf("replica %s (end):\n%s", r.name, data[max(0, len(data)-20000):])
	}
}

// leader returns the replica that holds the lease, or nil if none does.
func (c *cluster) leader(replicas ...*replica) *replica {
	var leases coordinationv1.LeaseList
	if err := c.List(context.Background(), &leases, client.InNamespace("kube-system")); err != nil {
		return nil
	}
	for _, lease := range leases.Items {
		for _, r := range replicas {
			if h := lease.Spec.HolderIdentity; h != nil && strings.HasSuffix(*h, fmt.Sprintf("_%d", r.pid())) {
				return r
			}
		}
	}
	return nil
}
