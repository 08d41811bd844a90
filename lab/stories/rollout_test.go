package stories

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// underLoad is the game with three pods, in namespaces, that stop as AWS's guides advise: some time after their
// deregistration begins. Pods have readiness gates unless they were created before the Ingress.
var underLoad = strings.NewReplacer(
	"sizing: Exact", "sizing: Exact\n  engine: Namespace\n  restrictions: None",
	"example.local/hello:1", "example.local/hello:2",
	"kind: Namespace\nmetadata: {name: study-aews}", `kind: Namespace
metadata: {name: study-aews, labels: {elbv2.k8s.aws/pod-readiness-gate-inject: enabled}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: game, namespace: study-aews}
spec: {minAvailable: 2, selector: {matchLabels: {app.kubernetes.io/name: app-2048}}}`,
	"replicas: 1", "replicas: 3",
	"cpu: 100m, memory: 64Mi", "cpu: 300m, memory: 256Mi",
	"      containers:\n", "      terminationGracePeriodSeconds: 60\n      containers:\n",
	"        name: app-2048\n        ports:", `        name: app-2048
        lifecycle: {preStop: {sleep: {seconds: 30}}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        ports:`,
	"alb.ingress.kubernetes.io/wafv2-acl-arn: arn:aws:wafv2:none",
	"alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds=30",
).Replace(game2048)

// All pods, and with them their nodes, are replaced under a load of 200 requests per second: first by a restart of
// the Deployment, then by draining one node after the other. No request is lost.
func TestAReplacementOfAllNodesLosesNoRequest(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	c := podHost(t, "--engine", "namespace")
	c.buildServerImage()
	c.apply(underLoad)
	address := c.gameAnswers()
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment/deployment-2048", "--timeout=240s")
	c.eventually(patience, func() error {
		if c.kubectl("get", "-n", "study-aews", "targetgroupbindings", "-o", "name") == "" {
			return errors.New("no TargetGroupBinding, by which pods get readiness gates")
		}
		return nil
	})
	first := c.nodeNames()

	var l load
	stop := l.start(address)
	c.kubectl("rollout", "restart", "-n", "study-aews", "deployment/deployment-2048")
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment/deployment-2048", "--timeout=240s")
	c.wantGone(first)
	c.readyWhenHealthy()
	second := c.nodeNames()
	for node := range second {
		c.kubectl("drain", node, "--ignore-daemonsets", "--timeout=240s")
	}
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment/deployment-2048", "--timeout=240s")
	c.wantGone(second)
	stop()
	sent := float64(l.asked) / l.took.Seconds()
	t.Logf("%d requests in %s, %.1f a second, of %d pods; %d were lost", l.asked, l.took.Round(time.Second), sent,
		len(l.pods), len(l.lost))
	if len(l.lost) > 0 {
		t.Errorf("lost: %v", l.lost[:min(5, len(l.lost))])
	}
	if sent < 0.95*perSecond {
		t.Errorf("%.1f requests a second, want %d", sent, perSecond)
	}
	if len(l.pods) < 9 {
		t.Errorf("only %v answered, want the first three pods, those of the restart and those of the drain", l.pods)
	}
}

// buildServerImage builds the image of the program hello.
func (c *cluster) buildServerImage() {
	c.t.Helper()
	dir := c.t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "hello"), "./hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("go build ./hello: %v\n%s", err, out)
	}
	out, err := c.run("image", "build", dir, "--tag", "example.local/hello:2", "--expose", "8080", "--", "/hello")
	if err != nil {
		c.t.Fatalf("image build: %v\n%s", err, out)
	}
}

func (c *cluster) nodeNames() map[string]bool {
	out := map[string]bool{}
	for _, n := range c.nodes() {
		out[n.Name] = true
	}
	return out
}

// wantGone waits until none of the nodes exists.
func (c *cluster) wantGone(nodes map[string]bool) {
	c.t.Helper()
	c.eventually(patience, func() error {
		for name := range c.nodeNames() {
			if nodes[name] {
				return fmt.Errorf("node %s is still there", name)
			}
		}
		return nil
	})
}

// readyWhenHealthy reports pods of the game that lack their load balancer's readiness gate, or were ready before it
// was open.
func (c *cluster) readyWhenHealthy() {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("study-aews")); err != nil {
		c.t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		since := map[corev1.PodConditionType]time.Time{}
		for _, k := range p.Status.Conditions {
			if k.Status == corev1.ConditionTrue {
				since[k.Type] = k.LastTransitionTime.Time
			}
		}
		gates := p.Spec.ReadinessGates
		if len(gates) != 1 || !strings.HasPrefix(string(gates[0].ConditionType), "target-health.elbv2.k8s.aws/k8s-studyaew-") {
			c.t.Errorf("pod %s has the readiness gates %v", p.Name, gates)
			continue
		}
		open, ready := since[gates[0].ConditionType], since[corev1.PodReady]
		if open.IsZero() || ready.Before(open) {
			c.t.Errorf("pod %s is ready since %s, and its target is healthy since %s", p.Name, ready, open)
		}
	}
}

// perSecond is how many requests load sends.
const perSecond = 200

// load sends perSecond requests a second to an address. Requests follow a fixed schedule: a late one is sent at once,
// and none waits for the response to another.
type load struct {
	took  time.Duration // from the first request until stop
	mu    sync.Mutex
	asked int
	lost  []error
	pods  map[string]int // responses by the pod that sent them
}

func (l *load) start(address string) (stop func()) {
	l.pods = map[string]int{}
	asker := &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConns: perSecond, MaxIdleConnsPerHost: perSecond},
	}
	done, began := make(chan struct{}), time.Now()
	var requests, clock sync.WaitGroup
	clock.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / perSecond))):
			}
			requests.Go(func() {
				at := time.Since(began)
				pod, err := whoAnswers(asker, address)
				l.note(pod, err, at)
			})
		}
	})
	return func() {
		close(done)
		clock.Wait()
		l.took = time.Since(began)
		requests.Wait()
	}
}

// note records the result of a request and when it was sent.
func (l *load) note(pod string, err error, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err != nil {
		l.lost = append(l.lost, fmt.Errorf("after %s: %w", at.Round(time.Millisecond), err))
	} else {
		l.pods[pod]++
	}
}
