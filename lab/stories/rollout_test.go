package stories

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// underLoad is the game with three pods, in namespaces, that end as AWS's guides advise: a few seconds after their
// deregistration has begun.
var underLoad = strings.NewReplacer(
	"sizing: Exact", "sizing: Exact\n  engine: Namespace\n  restrictions: None",
	"replicas: 1", "replicas: 3",
	"cpu: 100m", "cpu: 300m",
	"        name: app-2048\n        ports:", `        name: app-2048
        lifecycle: {preStop: {sleep: {seconds: 5}}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        ports:`,
	"alb.ingress.kubernetes.io/wafv2-acl-arn: arn:aws:wafv2:none",
	"alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds=5",
).Replace(game2048)

// All pods, and with them their nodes, are replaced while 200 requests come every second: none is lost.
func TestAReplacementOfAllNodesLosesNoRequest(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	c := podHost(t, "--engine", "namespace")
	c.apply(underLoad)
	address := c.gameAnswers()
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment/deployment-2048", "--timeout=120s")
	before := c.nodeNames()

	var l load
	stop := l.start(address)
	c.kubectl("rollout", "restart", "-n", "study-aews", "deployment/deployment-2048")
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment/deployment-2048", "--timeout=240s")
	c.eventually(patience, func() error {
		for name := range c.nodeNames() {
			if before[name] {
				return fmt.Errorf("node %s is still there", name)
			}
		}
		return nil
	})
	stop()
	t.Logf("%d requests in %s, of %d pods; %d were lost", l.asked, l.took.Round(time.Second), len(l.pods), len(l.lost))
	if len(l.lost) > 0 {
		t.Errorf("lost: %v", l.lost[:min(5, len(l.lost))])
	}
	if len(l.pods) < 6 {
		t.Errorf("only %v answered, want the three pods of before and of after", l.pods)
	}
}

func (c *cluster) nodeNames() map[string]bool {
	out := map[string]bool{}
	for _, n := range c.nodes() {
		out[n.Name] = true
	}
	return out
}

// load is five clients of which each asks an address every 20 ms, or as soon as it has its answer: 200 requests a second
// where they are answered as fast.
type load struct {
	took  time.Duration
	mu    sync.Mutex
	asked int
	lost  []error
	pods  map[string]int // answers by the pod that gave them
}

func (l *load) start(address string) (stop func()) {
	l.pods = map[string]int{}
	done, began := make(chan struct{}), time.Now()
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			asker := &http.Client{Timeout: 10 * time.Second}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					pod, err := whoAnswers(asker, address)
					l.note(pod, err, time.Since(began))
				}
			}
		})
	}
	return func() {
		close(done)
		clients.Wait()
		l.took = time.Since(began)
	}
}

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
