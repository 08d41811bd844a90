package stories

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// clusterView is the part of the output of `nodeless top -o json` that the tests check.
type clusterView struct {
	Kind   string
	Notes  []string
	Totals struct {
		Nodes         int
		PodsRunning   int
		PodsPending   int
		PricePerHour  float64
		PricePerMonth float64
	}
	Nodes []struct {
		Name, NodeClaim, NodePool, InstanceType, CapacityType, Zone, Status string
		PricePerHour                                                        *float64
		ReadyInSeconds                                                      float64
		Pods                                                                int
	}
	NodePools   []struct{ Name string }
	PendingPods []struct{ Namespace, Name, Why string }
}

const wants = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 12
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {karpenter.sh/do-not-disrupt: "true"}}
    spec:
      containers: [{name: c, image: nginx, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers: [{name: c, image: nginx, resources: {requests: {cpu: "5000"}}}]
`

// A user checks what the cluster costs right now: as a table, as a document, and live on a terminal.
func TestTopShowsWhatTheClusterCosts(t *testing.T) {
	t.Parallel()
	c := up(t, "--addons=true", "--boot-time", "1s")
	c.kubectl("patch", "nodepool", "general-purpose", "--type=merge", "-p",
		`{"spec":{"disruption":{"consolidateAfter":"Never"}}}`) // nothing is saved
	c.apply(wants)
	c.wantPods(2*time.Minute, "default", "web", 12)
	var seen clusterView
	c.eventually(time.Minute, func() error {
		out, err := c.run("top", "-o", "json")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		seen = clusterView{}
		if err := json.Unmarshal([]byte(out), &seen); err != nil {
			return fmt.Errorf("%w in\n%s", err, out)
		}
		if len(seen.PendingPods) != 1 || !strings.Contains(seen.PendingPods[0].Why, "cpu") || seen.Totals.PodsRunning < 12 {
			return fmt.Errorf("not all is seen yet: %s", out)
		}
		for _, n := range seen.Nodes {
			if n.Status != "Ready" || n.Pods == 0 {
				return fmt.Errorf("node %s is %s with %d pods", n.Name, n.Status, n.Pods)
			}
		}
		var summary struct{ DollarsPerHour float64 }
		if err := c.admin("GET", "/_nodeless/summary", nil, &summary); err != nil {
			return err
		}
		if d := seen.Totals.PricePerHour - summary.DollarsPerHour; d > 1e-6 || d < -1e-6 {
			return fmt.Errorf("top says $%f/h, the region charges $%f/h", seen.Totals.PricePerHour, summary.DollarsPerHour)
		}
		return nil
	})
	if seen.Kind != "ClusterView" || len(seen.Notes) != 0 || len(seen.NodePools) != 1 || len(seen.Nodes) == 0 ||
		seen.Totals.Nodes != len(seen.Nodes) {
		t.Errorf("%+v", seen)
	}
	for _, n := range seen.Nodes {
		if n.PricePerHour == nil || n.NodePool != "general-purpose" || n.NodeClaim == "" ||
			n.CapacityType != "on-demand" || !strings.HasPrefix(n.Zone, "us-west-2") || n.ReadyInSeconds <= 0 {
			t.Errorf("%+v", n)
		}
	}
	c.topTables(seen)
	c.completes(seen.Nodes[0].Name)
	c.topLive(seen.Nodes[0].Name)
}

// topTables runs top as eks-node-viewer's users do, with its flags and its configuration file, into a pipe.
func (c *cluster) topTables(seen clusterView) {
	c.t.Helper()
	for _, x := range []struct {
		args []string
		want []string
	}{
		{[]string{"top"}, []string{"NODE", "general-purpose", seen.Nodes[0].Name, "Ready", "/hour", "/month"}},
		{
			[]string{"top", "--node-sort=eks-node-viewer/node-cpu-usage=dsc", "--extra-labels", "eks-node-viewer/node-age"},
			[]string{"NODE-AGE"},
		},
		{[]string{"top", "-resources", "cpu,memory", "-disable-pricing"}, []string{"CPU", "MEMORY"}},
		{[]string{"top", "-o", "wide"}, []string{"READY-IN", "WHY"}},
		{[]string{"top", "-o", "name"}, []string{"node/" + seen.Nodes[0].Name + "\n"}},
		{[]string{"top", "pools"}, []string{"BUDGET E/D/U", "general-purpose", "Ready"}},
		{[]string{"top", "pending"}, []string{"default/huge", seen.PendingPods[0].Why}},
		{[]string{"top", "decisions"}, []string{"DECISION", "Launch", "Refuse", "ready in"}},
		{[]string{"top", "savings"}, []string{"saved $0.0000", "Compared with the same cluster"}},
		{[]string{"top", "costs"}, []string{"NAMESPACE", "default", "kube-system", "requested by no pod"}},
		{[]string{"top", "costs", "--group", "workload"}, []string{"WORKLOAD", "DaemonSet kube-system/aws-node"}},
		{[]string{"top", "costs", "-o", "custom-columns=NS:.namespace,DOLLARS:.pricePerMonth"}, []string{"kube-system"}},
		{[]string{"top", "decisions", "-o", "custom-columns=ID:.id,KIND:.kind"}, []string{"ID", "Launch"}},
		{[]string{"decisions", "-o", "jsonpath={.items[*].kind}"}, []string{"Launch"}},
		{[]string{"top", "-o", "jsonpath={.nodes[*].name}"}, []string{seen.Nodes[0].Name}},
		{[]string{"top", "--node-selector", "a=b", "--no-headers"}, nil},
	} {
		c.eventually(time.Minute, func() error { // the outcome of a decision is recorded with a delay
			out, err := c.run(x.args...)
			if err != nil || x.want == nil && out != "" || strings.Contains(out, "\x1b") {
				return fmt.Errorf("%q: %v\n%q", x.args, err, out)
			}
			for _, w := range x.want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("%q: %q is not in\n%s", x.args, w, out)
				}
			}
			return nil
		})
	}
	file := filepath.Join(c.home, ".eks-node-viewer")
	if err := os.WriteFile(file, []byte("# mine\nextra-labels = topology.kubernetes.io/region\nunknown=1\n"),
		0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.run("top"); err != nil || !strings.Contains(out, "REGION") {
		c.t.Errorf("its file is not read: %v\n%s", err, out)
	}
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "-o", "xml"}, "use -o wide, name, json, yaml"},
		{[]string{"top", "people"}, "people"},
		{[]string{"top", "--style", "red"}, "three colours"},
		{[]string{"top", "--resources", "a,b,c,d,e"}, "give 1 to 4"},
		{[]string{"top", "--node-selector", "=="}, "node selector"},
		{[]string{"top", "--context", "nowhere"}, "nowhere"},
	} {
		var exit *exec.ExitError
		if out, err := c.run(x.args...); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(out, x.want) {
			c.t.Errorf("%q: %v, want exit code 2 and %q:\n%s", x.args, err, x.want, out)
		}
	}
}

// topLive runs top on a terminal, waits until a node is drawn, and quits by key, Ctrl-C and signal.
func (c *cluster) topLive(node string) {
	c.t.Helper()
	node, _, _ = strings.Cut(node, ".") // the part that fits on the screen
	for _, leave := range []string{"q", "\x03", "SIGTERM"} {
		us, them, err := terminal()
		if err != nil {
			c.t.Fatal(err)
		}
		cmd := exec.Command(binary, "top")
		cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir, "TERM=xterm-256color")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = them, them, them
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		before, err := unix.IoctlGetTermios(int(them.Fd()), unix.TCGETS)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		var screen recorder
		go func() { _, _ = io.Copy(&screen, us) }()
		c.eventually(time.Minute, func() error {
			if s := screen.String(); !strings.Contains(s, node) {
				return fmt.Errorf("node %s is not drawn in %q", node, s)
			}
			return nil
		})
		if leave == "SIGTERM" {
			err = cmd.Process.Signal(syscall.SIGTERM)
		} else {
			_, err = us.WriteString(leave)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			c.t.Fatalf("%q does not leave the program", leave)
		}
		if code := cmd.ProcessState.ExitCode(); code != map[string]int{"SIGTERM": 130}[leave] {
			c.t.Errorf("%q: exit code %d", leave, code)
		}
		after, err := unix.IoctlGetTermios(int(them.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			c.t.Errorf("%q: the terminal is not as it was: %v", leave, err)
		}
		c.eventually(time.Minute, func() error {
			s := screen.String()
			for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h"} {
				if !strings.Contains(s, on) || strings.LastIndex(s, on) > strings.LastIndex(s, off) {
					return fmt.Errorf("%q: %q is not taken back in %q", leave, on, s)
				}
			}
			return nil
		})
		_, _ = us.Close(), them.Close()
	}
}

// recorder is a buffer that one goroutine writes and another reads.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// terminal opens a pseudo-terminal of 100 columns and 30 lines and returns our end and the program's.
func terminal() (us, them *os.File, err error) {
	if us, them, err = openTerminal(); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetWinsize(int(them.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		return nil, nil, errors.Join(err, us.Close(), them.Close())
	}
	return us, them, nil
}
