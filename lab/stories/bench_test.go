package stories

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The main job, measured with the built binary. The controller is a separate process beside the control plane, so
// that its CPU time and memory can be measured. Karpenter v1.14.1, measured on a machine of this kind: one pod ≥ 1 s
// by design; 1,000 pods bound after 14.5–15.4 s, Running after 17.8–18.9 s, 5.9–6.4 CPU-s, 167–180 MB.

// atLeisure is how long a benchmark waits for an outcome: it may run on a busy machine.
const atLeisure = 40 * time.Minute

// BenchmarkSinglePod measures the time from a pod's creation to the CreateFleet call that serves it, for 50 pods in
// sequence.
func BenchmarkSinglePod(b *testing.B) {
	for range b.N {
		c, _ := withController(b)
		var took []time.Duration
		for i := range 50 {
			took = append(took, c.podToFleet(fmt.Sprintf("single-%d", i)))
		}
		b.Logf("in turn: %v", took)
		slices.Sort(took)
		b.ReportMetric(ms(took[len(took)/2]), "ms-median")
		b.ReportMetric(ms(took[len(took)*99/100]), "ms-p99")
		b.ReportMetric(0, "ns/op")
	}
}

// podToFleet creates a pod that needs an instance of its own and returns the time until the region received its
// CreateFleet.
func (c *cluster) podToFleet(name string) time.Duration {
	before := len(c.fleets())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "pause",
			// Seven eighths of the node it gets: the next pod does not fit beside it.
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}},
		}}},
	}
	created := time.Now()
	if err := c.Create(context.Background(), pod); err != nil {
		c.t.Fatal(err)
	}
	var seen time.Time
	c.eventually(time.Minute, func() error {
		fleets := c.fleets()
		if len(fleets) <= before {
			return fmt.Errorf("no CreateFleet for pod %s", name)
		}
		seen = fleets[before].Time
		return nil
	})
	return seen.Sub(created)
}

type fleetCall struct {
	API  string    `json:"api"`
	Time time.Time `json:"time"`
}

func (c *cluster) fleets() []fleetCall {
	var all []fleetCall
	if err := c.admin("GET", "/_nodeless/calls", nil, &all); err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f fleetCall) bool { return f.API != "CreateFleet" })
}

// BenchmarkThousandPods creates 1,000 pods at once with 1 CPU and 2 GiB each, as in the measurement of Karpenter.
func BenchmarkThousandPods(b *testing.B) {
	for range b.N {
		c, pid := withController(b)
		many := c.many(b, pid)
		many.scale(1000)
		b.ReportMetric(float64(len(c.nodes())), "nodes")
		b.ReportMetric(c.dollars(), "$/h")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkFiveThousandPodsAndBack creates 5,000 such pods, deletes them, and waits until the last instance is
// terminated.
func BenchmarkFiveThousandPodsAndBack(b *testing.B) {
	for range b.N {
		c, pid := withController(b)
		many := c.many(b, pid)
		many.scale(5000)
		b.ReportMetric(float64(len(c.nodes())), "nodes")
		emptied := time.Now()
		c.kubectl("scale", "deployment", "many", "--replicas=0")
		c.eventually(atLeisure, c.nothingLeft)
		b.ReportMetric(time.Since(emptied).Seconds(), "s-to-nothing")
		many.usage()
		b.ReportMetric(0, "ns/op")
	}
}

// many is a deployment of pods that request 1 CPU and 2 GiB each, and the controller that serves it.
type many struct {
	*cluster
	b      *testing.B
	pid    int
	before float64 // CPU seconds of the controller
}

func (c *cluster) many(b *testing.B, pid int) *many {
	c.kubectl("create", "deployment", "many", "--image=pause", "--replicas=0")
	c.kubectl("set", "resources", "deployment", "many", "--requests=cpu=1,memory=2Gi")
	return &many{cluster: c, b: b, pid: pid, before: cpuSeconds(b, pid)}
}

// scale waits until the given number of pods run, and reports when all were bound, when all ran, and the controller's
// CPU time and memory.
func (m *many) scale(pods int) {
	started := time.Now()
	m.kubectl("scale", "deployment", "many", fmt.Sprintf("--replicas=%d", pods))
	var bound, running time.Duration
	m.eventually(atLeisure, func() error {
		var list corev1.PodList
		if err := m.List(context.Background(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		nBound, nRunning := 0, 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				nBound++
			}
			if list.Items[i].Status.Phase == corev1.PodRunning {
				nRunning++
			}
		}
		if nBound == pods && bound == 0 {
			bound = time.Since(started)
		}
		if nRunning < pods {
			return fmt.Errorf("%d of %d pods run", nRunning, pods)
		}
		running = time.Since(started)
		return nil
	})
	m.b.ReportMetric(bound.Seconds(), "s-bound")
	m.b.ReportMetric(running.Seconds(), "s-running")
	m.usage()
}

func (m *many) usage() {
	m.b.ReportMetric(cpuSeconds(m.b, m.pid)-m.before, "controller-cpu-s")
	m.b.ReportMetric(peakMB(m.b, m.pid), "controller-peak-MB")
}

func (c *cluster) dollars() float64 {
	var s struct {
		DollarsPerHour float64 `json:"dollarsPerHour"`
	}
	if err := c.admin("GET", "/_nodeless/summary", nil, &s); err != nil {
		c.t.Fatal(err)
	}
	return s.DollarsPerHour
}

// withController starts a cluster without a controller, and the controller as a separate process. Leader election is
// off: on a busy machine the lease may expire, and nothing would restart the controller.
func withController(b *testing.B) (c *cluster, pid int) {
	b.Helper()
	c = up(b, "--controller=false", "--boot-time", "0s")
	cmd := exec.Command(cmp.Or(os.Getenv("NODELESS_CONTROLLER"), binary), "run", "--kubeconfig", c.Session.Kubeconfig,
		"--cluster-name", "nodeless", "--leader-elect=false", "--metrics-address", "127.0.0.1:0", "--health-address",
		"127.0.0.1:0")
	cmd.Env = append(c.environment(), "AWS_ENDPOINT_URL="+c.Session.RegionURL)
	log, err := os.Create(filepath.Join(c.home, "controller.log"))
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	c.eventually(2*time.Minute, func() error {
		out := c.kubectl("get", "nodepool", "general-purpose", "-o",
			`jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if out != "True" {
			return fmt.Errorf("pool is not ready: %q", out)
		}
		return nil
	})
	return c, cmd.Process.Pid
}

func ms(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 10 }

// cpuSeconds is the user and system time that a process has used (proc_pid_stat(5), fields 14 and 15, in 1/100 s).
func cpuSeconds(b *testing.B, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// peakMB is the peak resident set size of a process.
func peakMB(b *testing.B, pid int) float64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if kb, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return math.Round(n / 1024)
		}
	}
	return 0
}
