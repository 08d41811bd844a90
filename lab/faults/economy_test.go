package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller"
)

// meter counts the calls that pass through it.
type meter struct {
	kind callKind
	next http.RoundTripper

	mu     sync.Mutex
	counts map[string]int // by name
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := read(req)
	if err != nil {
		return nil, err
	}
	what := name(m.kind, req, body)
	m.mu.Lock()
	m.counts[what]++
	m.mu.Unlock()
	req.Body = io.NopCloser(bytes.NewReader(body))
	return m.next.RoundTrip(req)
}

// since returns what was counted since the earlier counts in before, and replaces these.
func (m *meter) since(before map[string]int) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for what, n := range m.counts {
		if n > before[what] {
			out[what] = n - before[what]
		}
	}
	clear(before)
	maps.Copy(before, m.counts)
	return out
}

// economy is a cluster without faults whose controller's calls are counted.
type economy struct {
	*story
	aws, api         *meter
	seenAWS, seenAPI map[string]int
}

// calm runs a cluster with a pool and its class, and lets it settle.
func calm(t *testing.T, tell func(*testing.T, *economy)) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1, 0)
		in := newInjector(5, 0, 0) // seed 5: nothing goes wrong
		in.stop()
		e := &economy{
			story:   &story{c: c, in: in, judge: newJudge(limits, in.note)},
			aws:     &meter{kind: awsCall, next: c, counts: map[string]int{}},
			api:     &meter{kind: kubernetesCall, next: c.api, counts: map[string]int{}},
			seenAWS: map[string]int{}, seenAPI: map[string]int{},
		}
		var log safeBuffer
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx, through(t, c, e.api, e.aws, &log)) }()
		p := pool()
		p.Spec.Limits = nil
		if err := e.create(class(), p); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		e.aws.since(e.seenAWS)
		e.api.since(e.seenAPI)
		tell(t, e)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// step creates objects, waits until all pods run and another minute, and returns the calls made in that time.
func (e *economy) step(t *testing.T, objects ...client.Object) (aws, api map[string]int) {
	t.Helper()
	if err := e.create(objects...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := e.until(e.allRun); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	return e.aws.since(e.seenAWS), e.api.since(e.seenAPI)
}

func listed(counts map[string]int) string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%4d %s", counts[what], what))
	}
	return strings.Join(out, "\n")
}

// atMost fails the test if there were more than limit calls whose names contain a text.
func atMost(t *testing.T, limit int, text string, counts map[string]int) {
	t.Helper()
	n := 0
	for what, count := range counts {
		if strings.Contains(what, text) {
			n += count
		}
	}
	if n > limit {
		t.Errorf("%d calls of %q, want at most %d:\n%s", n, text, limit, listed(counts))
	}
}

// The status of the pool changes with each launch and each node, yet its class is resolved only once a minute.
// Interchangeable pods are not nominated to their nodes. A Node registers before it is ready, as on EC2: it is patched
// twice, and the status of its claim five times: launched, registered, initialized, a pod came, it is consolidatable.
func TestALaunchTakesFewCalls(t *testing.T) {
	calm(t, func(t *testing.T, e *economy) {
		aws, api := e.step(t, app("web", 35, "1"))
		nodes := len(e.instances())
		for _, one := range []string{"DescribeImages", "DescribeSubnets", "DescribeSecurityGroups"} {
			atMost(t, 3, one, aws)
		}
		atMost(t, nodes, "CreateFleet", aws)
		atMost(t, 0, "pods/", api)
		atMost(t, 5*nodes, "nodeclaims/*/status", api)
		atMost(t, 2*nodes, "patch api/v1/nodes/", api)
		atMost(t, 4*nodes, "events", api)

		// Two kinds of pods wait at once: pods are nominated to nodes.
		_, api = e.step(t, app("small", 20, "900m"), app("large", 5, "3500m"))
		if text := listed(api); !strings.Contains(text, "pods/*/status") {
			t.Errorf("nobody is nominated:\n%s", text)
		}
	})
}
