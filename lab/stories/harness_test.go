// Package stories runs the built binary as users do, and checks the resulting state of cluster and region: a real
// control plane, the real AWS SDK, nothing imported from the product.
package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// binary is the path of the built nodeless. make test sets it; a bare `go test` builds it.
var binary string

func TestMain(m *testing.M) {
	code, err := func() (int, error) {
		binary = os.Getenv("NODELESS_BINARY")
		if binary == "" {
			dir, err := os.MkdirTemp("", "nodeless-stories")
			if err != nil {
				return 1, err
			}
			defer os.RemoveAll(dir)
			binary = filepath.Join(dir, "nodeless")
			if out, err := exec.Command("go", "build", "-o", binary,
				"github.com/nodeless/nodeless/cmd/nodeless").CombinedOutput(); err != nil {
				return 1, fmt.Errorf("build nodeless: %w\n%s", err, out)
			}
		}
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// cluster is a `nodeless up` under test.
type cluster struct {
	t    testing.TB
	dir  string
	home string
	args []string
	cmd  *exec.Cmd
	out  *os.File
	exit chan error

	Session struct {
		PID         int    `json:"pid"`
		Kubeconfig  string `json:"kubeconfig"`
		RegionURL   string `json:"regionEndpoint"`
		RegionToken string `json:"regionToken"`
		Region      string `json:"region"`
		Page        string `json:"page"`
		PageToken   string `json:"pageToken"`
	}
	client.Client
	ec2 *ec2.Client
	aws aws.Config // of the region
}

// up starts a cluster in a folder of its own and stops it when the test ends. It has no add-ons, because stories
// count nodes and coredns needs one; --addons=true among the arguments enables them.
func up(t testing.TB, args ...string) *cluster {
	t.Helper()
	c := newCluster(t, append([]string{"--addons=false"}, args...)...)
	c.start()
	return c
}

func newCluster(t testing.TB, args ...string) *cluster {
	t.Helper()
	// Looking at the file also tells `go test` that cached results hold only for this build.
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("NODELESS_BINARY: %v; build it with `make build`", err)
	}
	c := &cluster{t: t, dir: filepath.Join(t.TempDir(), "data"), home: t.TempDir(), args: args}
	t.Cleanup(func() {
		if c.cmd != nil {
			if t.Failed() {
				c.dumpObjects()
			}
			c.stop(syscall.SIGTERM)
		}
		if strings.Contains(c.log(), "goroutine ") {
			t.Error("nodeless up printed the stack of a goroutine to the terminal")
		}
		if t.Failed() {
			c.dumpLogs()
		}
	})
	return c
}

// environment is that of a separate user: no kubeconfig or AWS settings of this host leak in. GOGC is scripts/test's.
func (c *cluster) environment() []string {
	return []string{
		"HOME=" + c.home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1",
		"NODELESS_GUEST_KERNEL=" + guestKernel(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_REGION=us-west-2", "GOGC=" + os.Getenv("GOGC"),
	}
}

func (c *cluster) start() {
	c.t.Helper()
	if err := c.tryStart(); err != nil {
		c.t.Fatal(err)
	}
}

// tryStart starts the process and waits for its session file and a working API.
func (c *cluster) tryStart() error {
	if err := c.spawn(); err != nil {
		return err
	}
	return c.await()
}

// spawn starts the process.
func (c *cluster) spawn() error {
	_ = os.Remove(filepath.Join(c.dir, "session.json"))
	args := append([]string{"up", "--data-dir", c.dir}, c.args...)
	out, err := os.OpenFile(filepath.Join(c.home, "up.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.out = out
	c.cmd = exec.Command(binary, args...)
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.environment(), out, out
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.exit = make(chan error, 1)
	go func(cmd *exec.Cmd, exit chan error) { exit <- cmd.Wait() }(c.cmd, c.exit)
	return nil
}

// await waits until the process is ready.
func (c *cluster) await() error {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		data, err := os.ReadFile(filepath.Join(c.dir, "session.json"))
		if err == nil && json.Unmarshal(data, &c.Session) == nil {
			return c.connect()
		}
		select {
		case err := <-c.exit:
			c.exit <- err
			return fmt.Errorf("nodeless up ended: %w\n%s", err, c.log())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nodeless up was not ready in 3 minutes\n%s", c.log())
		}
	}
}

func (c *cluster) connect() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Session.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 500, 1000
	if c.Client, err = client.New(cfg, client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	c.aws = aws.Config{
		Region: c.Session.Region, BaseEndpoint: &c.Session.RegionURL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	c.ec2 = ec2.NewFromConfig(c.aws)
	return nil
}

// stop sends the process a signal and waits until it exits.
func (c *cluster) stop(sig syscall.Signal) {
	c.t.Helper()
	_ = c.cmd.Process.Signal(sig)
	select {
	case <-c.exit:
	case <-time.After(time.Minute):
		_ = c.cmd.Process.Kill()
		<-c.exit
		c.t.Errorf("nodeless up did not end within a minute of %s", sig)
	}
	c.cmd = nil
	_ = c.out.Close()
}

func (c *cluster) log() string {
	data, _ := os.ReadFile(filepath.Join(c.home, "up.log"))
	return string(data)
}

// dumpObjects logs the state that a failed test leaves: objects, events, decisions, and the consoles of microVMs.
func (c *cluster) dumpObjects() {
	for _, args := range [][]string{
		{"get", "pods,nodeclaims,nodes", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, err := c.run(append([]string{"kubectl", "--request-timeout=10s"}, args...)...)
		if err != nil {
			out += err.Error()
		}
		c.t.Logf("kubectl %s (end):\n%s", strings.Join(args, " "), out[max(0, len(out)-10000):])
	}
	decisions, _ := c.run("decisions", "-o", "wide")
	c.t.Logf("nodeless decisions -o wide (beginning):\n%s", decisions[:min(len(decisions), 10000)])
	consoles, _ := filepath.Glob(filepath.Join(c.dir, "microvms", "machines", "*", "console.log"))
	for _, name := range consoles {
		data, _ := os.ReadFile(name)
		c.t.Logf("%s (end):\n%s", name, data[max(0, len(data)-3000):])
	}
}

// warning matches a line of nodeless.log that has level WARN or ERROR.
var warning = regexp.MustCompile(`(?m)^.* level=(WARN|ERROR) .*$`)

func (c *cluster) dumpLogs() {
	c.t.Logf("output of nodeless up:\n%s", c.log())
	data, _ := os.ReadFile(filepath.Join(c.dir, "logs", "nodeless.log"))
	if f := os.Getenv("NODELESS_KEEP_LOG"); f != "" {
		_ = os.WriteFile(f, data, 0o600)
	}
	if len(data) > 20000 {
		warnings := strings.Join(warning.FindAllString(string(data), -1), "\n")
		c.t.Logf("warnings of nodeless.log (beginning):\n%s", warnings[:min(len(warnings), 10000)])
		data = data[len(data)-20000:]
	}
	c.t.Logf("nodeless.log (end):\n%s", data)
}

// run runs the binary as a user would.
func (c *cluster) run(args ...string) (string, error) {
	return c.runIn("", args...)
}

func (c *cluster) runIn(stdin string, args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// kubectl runs `nodeless kubectl …` and fails the test if it fails.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.run(append([]string{"kubectl"}, args...)...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply runs `kubectl apply -f -`.
func (c *cluster) apply(manifest string) {
	c.t.Helper()
	if out, err := c.runIn(manifest, "kubectl", "apply", "-f", "-"); err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// eventually waits until check returns nil.
func (c *cluster) eventually(within time.Duration, check func() error) {
	c.t.Helper()
	if err := eventually(within, check); err != nil {
		c.t.Fatal(err)
	}
}

// eventually checks until check returns nil. It waits twice as long as a check takes: most run the binary, which takes
// a third of a second of a core, and several stories share two cores. On a busy machine it waits longer than within:
// no story measures time with it.
func eventually(within time.Duration, check func() error) error {
	within = max(within, patience)
	deadline := time.Now().Add(within)
	for {
		began := time.Now()
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", within, err)
		}
		time.Sleep(min(max(100*time.Millisecond, 2*time.Since(began)), 2*time.Second))
	}
}

// wantEvents waits until the events that match a field selector contain the text: events are written asynchronously.
func (c *cluster) wantEvents(selector, text string) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		if got := c.kubectl("get", "events", "--field-selector", selector); !strings.Contains(got, text) {
			return fmt.Errorf("events by %s do not say %q:\n%s", selector, text, got)
		}
		return nil
	})
}

// phases counts the pods of a namespace and app label by phase; pods being deleted count as "Deleting".
func (c *cluster) phases(namespace, app string) map[string]int {
	c.t.Helper()
	var pods corev1.PodList
	opts := []client.ListOption{client.InNamespace(namespace)}
	if app != "" {
		opts = append(opts, client.MatchingLabels{"app": app})
	}
	if err := c.List(context.Background(), &pods, opts...); err != nil {
		return map[string]int{"error: " + err.Error(): 1}
	}
	n := map[string]int{}
	for i := range pods.Items {
		phase := string(pods.Items[i].Status.Phase)
		if pods.Items[i].DeletionTimestamp != nil {
			phase = "Deleting"
		}
		n[phase]++
	}
	return n
}

// wantPods waits until exactly the given number of pods of the app run and none is in another phase.
func (c *cluster) wantPods(within time.Duration, namespace, app string, running int) {
	c.t.Helper()
	c.eventually(within, func() error {
		got := c.phases(namespace, app)
		if got["Running"] != running || len(got) > 1 || (running == 0 && len(got) > 0) {
			return fmt.Errorf("pods of %s/%s by phase: %v, want %d Running and no other", namespace, app, got, running)
		}
		return nil
	})
}

func (c *cluster) claims() []karpv1.NodeClaim {
	c.t.Helper()
	var l karpv1.NodeClaimList
	c.eventually(time.Minute, func() error { return c.List(context.Background(), &l) })
	return l.Items
}

func (c *cluster) nodes() []corev1.Node {
	c.t.Helper()
	var l corev1.NodeList
	c.eventually(time.Minute, func() error { return c.List(context.Background(), &l) })
	return l.Items
}

// instances returns the region's instances that are not terminated, as EC2's API lists them.
func (c *cluster) instances() ([]ec2types.Instance, error) {
	var found []ec2types.Instance
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{
		Name:   aws.String("instance-state-name"),
		Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"},
	}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			found = append(found, r.Instances...)
		}
	}
	return found, nil
}

// nothingLeft returns an error if there are still instances, nodes or NodeClaims.
func (c *cluster) nothingLeft() error {
	instances, err := c.instances()
	if err != nil {
		return err
	}
	if n, m, i := len(c.nodes()), len(c.claims()), len(instances); n+m+i > 0 {
		return fmt.Errorf("still %d nodes, %d claims, %d instances", n, m, i)
	}
	return nil
}

// admin calls the region's own administration API, which real AWS does not have.
func (c *cluster) admin(method, path string, body, into any) error {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, c.Session.RegionURL+path, in)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Session.RegionToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return errors.New(resp.Status + ": " + string(data))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}
