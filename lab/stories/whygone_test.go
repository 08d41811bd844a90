package stories

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hadToLeave is the line with the evicted pods of a removed node: if something else removed it, they may have been
// deleted before the eviction was recorded.
var hadToLeave = regexp.MustCompile(`(?m)^ evicted .*\n`)

// decisions is the part of the output of `nodeless decisions -o json` that the tests check.
type decisions struct {
	Items []struct {
		ID, Kind, Method, Why string
		Outcomes              []struct{ What string }
	}
}

// told returns the decisions about a pool as words, such as "Launch Ready".
func (c *cluster) told(pool string) string {
	c.t.Helper()
	out, err := c.run("decisions", "nodepool/"+pool, "-o", "json")
	if err != nil {
		c.t.Fatalf("decisions: %v\n%s", err, out)
	}
	var d decisions
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		c.t.Fatalf("decisions: %v\n%s", err, out)
	}
	var lines []string
	for _, i := range d.Items {
		words := []string{i.Kind}
		if i.Method != "" {
			words = append(words, i.Method)
		}
		for _, o := range i.Outcomes {
			if o.What != "Asked" { // the node may be gone before the controller reports this
				words = append(words, o.What)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// A node is launched for a pod, replaced by a cheaper one when that pod is deleted, and the cheaper one is removed
// when it is no longer needed. When all of them and their events are gone and the controller was restarted, `why`
// still says for each what was decided and why.
func TestWhyWhatIsGone(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s", "--feature-gates", "StaticCapacity=true")
	c.kubectl("create", "namespace", "gone")
	c.apply(strings.Replace(pool("gone", "{consolidateAfter: 0s}"), "[m5.large]", "[m5.large, m5.2xlarge]",
		1) + apart("gone", "big", "5000m", 1, false))
	c.wantPods(2*time.Minute, "gone", "big", 1)
	first, big := c.whereIs("gone")
	claim := c.poolClaims("gone")[0].Name
	c.apply(apart("gone", "small", "1500m", 1, false))
	c.wantPods(2*time.Minute, "gone", "small", 1)
	c.kubectl("-n", "gone", "delete", "deployment", "big")
	second := ""
	c.eventually(120*time.Second, func() error {
		claims := c.poolClaims("gone")
		if len(claims) != 1 || claims[0].Name == claim {
			return fmt.Errorf("%d machines are there", len(claims))
		}
		second = claims[0].Status.NodeName
		return nil
	})
	c.wantPods(2*time.Minute, "gone", "small", 1)
	c.eventually(time.Minute, func() error {
		if out := c.why("node/" + second); !strings.Contains(out, "decided") ||
			!strings.Contains(out, "with m5.large on-demand") {
			return fmt.Errorf("of a machine that is there it is not said what was decided:\n%s", out)
		}
		return nil
	})
	c.kubectl("-n", "gone", "delete", "deployment", "small")
	const want = "Launch Ready\nReplace Underutilized Ready Gone\nRemove Empty Gone"
	c.eventually(120*time.Second, func() error {
		if got := c.told("gone"); got != want {
			return fmt.Errorf("decided was\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	c.kubectl("delete", "events", "-A", "--all")
	c.stop(syscall.SIGTERM)
	c.start()
	if got := c.told("gone"); got != want {
		t.Errorf("another process tells\n%s\nwant\n%s", got, want)
	}
	c.whyGolden("gone-pod", "pod/"+big, "-n", "gone")
	c.whyGolden("gone-node", "node/"+first)
	c.whyGolden("gone-nodeclaim", "nodeclaim", claim)
	c.whyGolden("gone-node-empty", "node/"+second)
	c.savingsStory()
	c.decisionsStory(big)
	for i, node := range c.departures() {
		wantGolden(t, "gone-"+whyDeparted[i].name, hadToLeave.ReplaceAllString(c.why("node/"+node), ""))
	}
}

// savingsStory checks the savings: the first node would cost $0.386192 an hour with its volume, the second one was
// cheaper and is gone too.
func (c *cluster) savingsStory() {
	out, err := c.run("savings", "-o", "json")
	if err != nil {
		c.t.Fatalf("savings: %v\n%s", err, out)
	}
	var l struct {
		Dollars, DollarsPerHour float64
		Counterfactual          string
		Savings                 []struct{ Method, State, What string }
	}
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		c.t.Fatalf("savings: %v\n%s", err, out)
	}
	if math.Abs(l.DollarsPerHour-0.386192) > 1e-9 || !strings.Contains(l.Counterfactual, "no node is removed") ||
		len(l.Savings) != 2 ||
		l.Savings[0].What != "m5.2xlarge → m5.large" || l.Savings[1].Method != "Empty" {
		c.t.Errorf("savings are %+v", l)
	}
	for _, args := range [][]string{{"savings"}, {"savings", "-o", "wide"}, {"savings", "-o", "yaml", "--horizon", "1h"}} {
		if out, err := c.run(args...); err != nil || !strings.Contains(out, "no node is removed") {
			c.t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// decisionsStory lists decisions in every format, and checks the errors of bad requests.
func (c *cluster) decisionsStory(pod string) {
	for args, want := range map[string]string{
		"decisions":                             "Underutilized",
		"decisions -o wide --limit 0":           "SNAPSHOT",
		"decisions -o name":                     "decision/",
		"decisions pod/" + pod + " -n gone":     "m5.2xlarge on-demand",
		"decisions nodepool/gone -o yaml":       "kind: DecisionList",
		"decisions nodepool/gone --since 1000h": "Empty",
	} {
		if out, err := c.run(strings.Fields(args)...); err != nil || !strings.Contains(out, want) {
			c.t.Errorf("%s: %v\n%s\nwant %q in it", args, err, out, want)
		}
	}
	for args, want := range map[string]string{
		"decisions -o xml": "use -o wide, name, json", "decisions deployment/web": "unknown kind",
		"decisions --limit -1": "no negative",
		"savings --horizon 0s": "use a time such as 24h", "savings -o name": "use -o wide, csv, json", "why": "nodeless decisions",
	} {
		if out, err := c.run(strings.Fields(args)...); err == nil || !strings.Contains(out, want) {
			c.t.Errorf("%s: %v\n%s\nwant an error with %q", args, err, out, want)
		}
	}
}
