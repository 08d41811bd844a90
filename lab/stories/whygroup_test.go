package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Nodes that would be replaced together say so, and name what they wait for and until when. Then exactly that
// happens.
func TestWhyNodesOfAGroupStay(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s")
	c.growing("group", "{consolidateAfter: 0s, budgets: [{nodes: 100%}]}", "m5.large, m5.2xlarge", 7)
	c.groupGoes(c.groupStory())
	c.growing("few", "{consolidateAfter: 0s, budgets: [{nodes: '1'}]}", "m5.large, m5.xlarge", 3)
	c.budgetStory()
}

// growing creates a pool whose pods arrive one after another, each on a small node of its own, though a larger node
// for all of them costs less.
func (c *cluster) growing(name, disruption, types string, pods int) {
	c.t.Helper()
	c.kubectl("create", "namespace", name)
	p := strings.Replace(pool(name, disruption), "[m5.large]", "["+types+"]", 1)
	c.apply(strings.Replace(p, "requirements:\n",
		"requirements:\n      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}\n",
		1) + apart(name, "web", "1000m", 0, false))
	for n := range pods {
		c.kubectl("-n", name, "scale", "deployment", "web", fmt.Sprintf("--replicas=%d", n+1))
		c.wantPods(2*time.Minute, name, "web", n+1)
	}
	if got := len(c.poolClaims(name)); got != pods {
		c.t.Fatalf("%d nodes of pool %s, want one for each of %d pods", got, name, pods)
	}
	c.kubectl("wait", "--for=condition=Initialized", "--timeout=240s", "nodeclaims", "-l", "karpenter.sh/nodepool="+name)
}

// groupStory asks about one of the nodes: the answer names the others, what they wait for, and until when.
func (c *cluster) groupStory() (until time.Time) {
	c.t.Helper()
	node, _ := c.whereIs("group")
	c.eventually(time.Minute, func() error {
		a := c.whyJSON("node/" + node)
		if len(a.Blockers) != 1 || len(a.Blockers) == 0 || a.Blockers[0].Rule != "Payback" || len(a.Blockers[0].Group) != 7 ||
			!strings.Contains(a.Then, "with m5.2xlarge") {
			return fmt.Errorf("%s: %+v, then %q", a.Summary, a.Blockers, a.Then)
		}
		until = a.Blockers[0].ClearsAt
		return nil
	})
	if left := time.Until(until); left <= 0 || left > 4*time.Minute {
		c.t.Errorf("their pods are old enough in %s", left)
	}
	return until
}

// groupGoes waits for the node that replaces the seven: not before the announced time, and not much later.
func (c *cluster) groupGoes(until time.Time) {
	c.t.Helper()
	c.eventually(time.Until(until)+3*time.Minute, func() error {
		claims := c.poolClaims("group")
		if len(claims) != 1 || claims[0].Labels["node.kubernetes.io/instance-type"] != "m5.2xlarge" {
			return fmt.Errorf("%d nodes", len(claims))
		}
		const atMost = time.Minute + 20*time.Second // changes by pods' age alone are checked once a minute
		if late := claims[0].CreationTimestamp.Sub(until); late < -time.Second || late > atMost {
			c.t.Errorf("it was said until %s, and the new node was asked for %s later", until, late)
		}
		return nil
	})
}

// budgetStory asks about a node whose group may not be removed together: the answer names the budget, which no longer
// blocks once it is changed.
func (c *cluster) budgetStory() {
	c.t.Helper()
	node, _ := c.whereIs("few")
	out := c.why("node/" + node)
	for _, want := range []string{
		"no cheaper node fits its pods", "something cheaper would replace 3 nodes together",
		"spec.disruption.budgets[0] (nodes: 1) of NodePool few allows 1 of its 3 nodes to be removed at a time",
	} {
		if !strings.Contains(out, want) {
			c.t.Errorf("%q is not in\n%s", want, out)
		}
	}
	c.kubectl("patch", "nodepool", "few", "--type", "merge", "-p",
		`{"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}`)
	c.eventually(time.Minute, func() error {
		if a := c.whyJSON("node/" + node); len(a.Blockers) == 0 || a.Blockers[0].Rule != "Payback" || len(a.Blockers[0].Group) != 3 {
			return fmt.Errorf("with another budget: %s: %+v", a.Summary, a.Blockers)
		}
		return nil
	})
}
