package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Budgets with an impossible cron schedule or duration: the API server rejects what the schema can detect. The rest
// becomes a condition of the pool, and none of the pool's nodes are disrupted meanwhile.
func (c *cluster) badBudgetsStory(t *testing.T) {
	pool := func(name, disruption string) string {
		return badPool(name, "{key: kubernetes.io/arch, operator: Exists}", "{}") + "  disruption: {" + disruption + "}\n"
	}
	for name, tc := range map[string]struct{ disruption, want string }{
		"a duration in words": {`consolidateAfter: "five minutes"`, "consolidateAfter"},
		"a schedule without duration": {
			`consolidateAfter: 0s, budgets: [{nodes: "1", schedule: "@daily"}]`,
			"'schedule' must be set with 'duration'",
		},
		"a schedule of four fields": {
			`consolidateAfter: 0s, budgets: [{nodes: "1", schedule: "* * * *", duration: 1h}]`,
			"schedule",
		},
		"a duration of seconds": {
			`consolidateAfter: 0s, budgets: [{nodes: "1", schedule: "@daily", duration: 90s}]`,
			"duration",
		},
		"more than all": {`consolidateAfter: 0s, budgets: [{nodes: "101%"}]`, "nodes"},
	} {
		out, err := c.runIn(pool("refused", tc.disruption), "kubectl", "apply", "-f", "-")
		if err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%s: error %v, output %q, want a refusal that says %q", name, err, out, tc.want)
		}
	}
	c.apply(pool("badcron", `consolidateAfter: 0s, budgets: [{nodes: "1", schedule: "61 25 * * *", duration: 1h}]`))
	c.wantCondition("nodepool", "badcron", "ValidationSucceeded", "61 25 * * *")
}

// A node class cannot be resolved: the pool says so, and so does a pod that needs it.
func (c *cluster) unreadyClassStory(*testing.T) {
	c.apply(badClass("unready", "al2023@latest", "no-such-cluster"))
	c.apply(strings.ReplaceAll(badPool("unready", "{key: kubernetes.io/arch, operator: Exists}", "{}"),
		"name: default", "name: unready"))
	c.wantCondition("nodepool", "unready", "NodeClassReady", "subnetSelectorTerms")
	c.kubectl("run", "waiting", "--image=nginx", "--overrides",
		`{"spec":{"nodeSelector":{"only":"unready"},"tolerations":[{"key":"bad-input","operator":"Exists"}]}}`)
	c.wantEvent(time.Minute, "default", "waiting", "unready")
}

// A pool is deleted while it has nodes: they are drained and removed, and the pods that only this pool could serve
// say what they lack.
func (c *cluster) deletedPoolStory(t *testing.T) {
	c = c.ofTheirOwn(t, "doomed")
	c.apply(deployment("doomed", "web", 2, "500m", "terminationGracePeriodSeconds: 0", ""))
	c.wantPods(2*time.Minute, "doomed", "web", 2)
	c.kubectl("delete", "nodepool", "doomed", "--wait=false")
	c.eventually(2*time.Minute, func() error {
		for _, claim := range c.claims() {
			if claim.Labels[karpv1.NodePoolLabelKey] == "doomed" {
				return fmt.Errorf("claim %s is there, deleted at %v", claim.Name, claim.DeletionTimestamp)
			}
		}
		if got := c.phases("doomed", "web"); got["Pending"] != 2 || len(got) > 1 {
			return fmt.Errorf("pods by phase: %v, want 2 Pending", got)
		}
		return nil
	})
	c.eventually(time.Minute, c.instancesAreClaimsOrNone)
	pod := strings.TrimPrefix(strings.Fields(c.kubectl("-n", "doomed", "get", "pods", "-o", "name"))[0], "pod/")
	c.wantEvent(time.Minute, "doomed", pod, "team")
}

func (c *cluster) instancesAreClaimsOrNone() error {
	if c.nothingLeft() == nil {
		return nil
	}
	return c.instancesAreClaims()
}

// Messages that cannot be parsed are logged and removed from the queue, and the notices behind them are handled.
func (c *cluster) badMessagesStory(*testing.T) {
	q := c.queue()
	for _, body := range []string{
		"", "null", "[]", "{", `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":{}}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{}}`,
		strings.Repeat("x", 100_000),
	} {
		if err := q.send(body + " ")(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.eventually(time.Minute, q.isEmpty)
	log, err := os.ReadFile(filepath.Join(c.dir, "logs", "nodeless.log"))
	if err != nil || !strings.Contains(string(log), "a message on the interruption queue cannot be read and is removed") {
		c.t.Errorf("the log does not tell of messages that cannot be read: %v", err)
	}
}
