package drain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func pod(name string, change ...func(*Pod)) Pod {
	p := Pod{Key: model.PodKey{Namespace: "shop", Name: name, UID: name}, Grace: 30 * time.Second}
	for _, c := range change {
		c(&p)
	}
	return p
}

func daemon(p *Pod)   { p.Daemon = true }
func critical(p *Pod) { p.Critical = true }
func static(p *Pod)   { p.Static = true }
func terminal(p *Pod) { p.Terminal = true }
func tolerant(p *Pod) { p.Tolerant = true }
func held(p *Pod)     { p.BlockedUntil = noon.Add(time.Hour) }
func endsIn(d time.Duration) func(*Pod) {
	return func(p *Pod) { p.Ends = noon.Add(d) }
}

func refusedFor(d time.Duration) func(*Pod) {
	return func(p *Pod) { p.NotBefore = noon.Add(d) }
}

// text formats a result for comparison.
func text(r Result) string {
	var out []string
	for _, k := range r.Evict {
		out = append(out, "evict "+k.Name)
	}
	for _, d := range r.Delete {
		out = append(out, fmt.Sprintf("delete %s in %v", d.Key.Name, d.Grace))
	}
	for _, w := range r.Waiting {
		out = append(out, fmt.Sprintf("wait for %s: %s", w.Key.Name, w.Why))
	}
	if !r.Next.IsZero() {
		out = append(out, "again in "+r.Next.Sub(noon).String())
	}
	if r.Done {
		out = append(out, "done")
	}
	return strings.Join(out, "; ")
}

func TestStep(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // 0 = none
		pods     []Pod
		want     string
	}{
		{name: "an empty machine is drained at once", want: "done"},
		{
			name: "pods that stay to the end are not waited for",
			pods: []Pod{pod("a", static), pod("b", terminal), pod("c", tolerant)}, want: "done",
		},
		{
			name: "normal pods go first",
			pods: []Pod{pod("agent", daemon), pod("dns", critical), pod("proxy", daemon, critical), pod("web")},
			want: "evict web; wait for agent: other pods leave first; wait for dns: other pods leave first; wait for proxy: other pods leave first",
		},
		{
			name: "then daemons", pods: []Pod{pod("agent", daemon), pod("dns", critical)},
			want: "evict agent; wait for dns: other pods leave first",
		},
		{
			name: "then critical pods", pods: []Pod{pod("dns", critical), pod("proxy", daemon, critical)},
			want: "evict dns; wait for proxy: other pods leave first",
		},
		{name: "then critical daemons", pods: []Pod{pod("proxy", daemon, critical)}, want: "evict proxy"},
		{
			name: "a group that is ending holds up the next",
			pods: []Pod{pod("web", endsIn(10*time.Second)), pod("agent", daemon)},
			want: "wait for agent: other pods leave first; wait for web: it is terminating; again in 1m10s",
		},
		{
			name: "a pod stuck for a minute is given up",
			pods: []Pod{pod("web", endsIn(-time.Minute)), pod("agent", daemon)}, want: "evict agent",
		},
		{
			name: "a held pod stalls the drain", pods: []Pod{pod("job", held), pod("agent", daemon)},
			want: "wait for agent: other pods leave first; wait for job: karpenter.sh/do-not-disrupt; again in 1h0m0s",
		},
		{
			name: "a refused eviction is tried again later",
			pods: []Pod{pod("db", refusedFor(200*time.Millisecond)), pod("web")},
			want: "evict web; wait for db: its eviction was refused; again in 200ms",
		},
		{
			name: "before the deadline pods are evicted as usual", deadline: time.Minute, pods: []Pod{pod("web")},
			want: "evict web; again in 30s",
		},
		{
			name: "at the deadline less its grace a pod is deleted, held or not, of any group", deadline: 30 * time.Second,
			pods: []Pod{pod("job", held), pod("agent", daemon), pod("web", refusedFor(time.Second))},
			want: "delete agent in 30s; delete job in 30s; delete web in 30s",
		},
		{
			name: "past the deadline one second is left", deadline: -time.Hour, pods: []Pod{pod("web")},
			want: "delete web in 1s",
		},
		{
			name: "a deletion with too much grace is shortened", deadline: 10 * time.Second,
			pods: []Pod{pod("web", endsIn(time.Hour))}, want: "delete web in 10s",
		},
		{
			name: "a deletion in time is left alone", deadline: 10 * time.Second,
			pods: []Pod{pod("web", endsIn(10*time.Second))},
			want: "wait for web: it is terminating; again in 1m10s",
		},
		{
			name: "pods that stay outlive the deadline too", deadline: -time.Second,
			pods: []Pod{pod("a", static), pod("b", tolerant)}, want: "done",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var deadline time.Time
			if c.deadline != 0 {
				deadline = noon.Add(c.deadline)
			}
			if got := text(Step(noon, deadline, c.pods)); got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

// Whatever the pods, a drain with a deadline ends if its evictions succeed; no pod is both evicted and deleted.
func TestEveryDrainWithADeadlineEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var pods []Pod
		for i := range r.IntN(12) {
			p := pod(fmt.Sprint("p", i))
			p.Daemon, p.Critical, p.Static = r.IntN(3) == 0, r.IntN(4) == 0, r.IntN(8) == 0
			p.Grace = time.Duration(r.IntN(90)) * time.Second
			if r.IntN(4) == 0 {
				held(&p)
			}
			pods = append(pods, p)
		}
		now, deadline, steps := noon, noon.Add(2*time.Minute), 0
		for ; ; steps++ {
			out := Step(now, deadline, pods)
			if out.Done {
				break
			}
			if steps > 100 {
				t.Fatalf("no end after %d steps: %s", steps, text(out))
			}
			ending := map[model.PodKey]time.Duration{}
			for i := range pods {
				for _, k := range out.Evict {
					if k == pods[i].Key {
						ending[k] = pods[i].Grace
					}
				}
			}
			for _, d := range out.Delete {
				if _, both := ending[d.Key]; both {
					t.Fatalf("%s is evicted and deleted", d.Key.Name)
				}
				ending[d.Key] = d.Grace
			}
			var kept []Pod
			for _, p := range pods {
				if d, ok := ending[p.Key]; ok {
					p.Ends = now.Add(d)
				}
				kept = append(kept, p)
			}
			pods = kept
			if len(ending) == 0 {
				if out.Next.IsZero() {
					t.Fatalf("nothing to do and nothing to wait for: %s", text(out))
				}
				now = out.Next
			}
			pods = ended(pods, now)
		}
		if now.After(deadline.Add(Stuck + time.Second)) {
			t.Fatalf("ended %v after the deadline", now.Sub(deadline))
		}
	}
}

// ended returns the pods that have not ended by now.
func ended(pods []Pod, now time.Time) []Pod {
	var out []Pod
	for _, p := range pods {
		if p.Ends.IsZero() || now.Before(p.Ends) {
			out = append(out, p)
		}
	}
	return out
}
