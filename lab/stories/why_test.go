package stories

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// waiting is a pod that fits no node.
type waiting struct {
	name  string
	pool  string // the pool that it selects; "" = any
	spec  string // lines of its spec beside the container
	ask   string // requests; default cpu: 500m
	ports string
	also  string   // manifests that are applied before it
	flags []string // of the question
	// rule is the blocking rule. change is the text of the smallest change that helps, "" if there is none.
	rule, change string
	// fix makes the change if it is more than an edit of one object, for which the answer has a command.
	fix func(c *cluster)
	// low marks a pod that another one may preempt before that one has a node.
	low bool
}

// manifest returns the pod's manifest.
func (w *waiting) manifest() string {
	spec, ask := w.spec, w.ask
	if ask == "" {
		ask = "cpu: 500m"
	}
	if w.pool != "" {
		spec = strings.TrimSpace(spec + "\nnodeSelector: {karpenter.sh/nodepool: " + w.pool + "}")
	}
	limits := ""
	if strings.Contains(ask, "example.com/") {
		limits = ", limits: {" + ask + "}"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: waiting, labels: {app: %[1]s}, annotations: {karpenter.sh/do-not-disrupt: "true"}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: nginx, ports: [%[2]s], resources: {requests: {%[3]s}%[4]s}}]
  %[5]s
`, w.name, w.ports, ask, limits, strings.ReplaceAll(spec, "\n", "\n  "))
}

// For each rule that can keep a pod off a node: the answer, word for word, and that making the change it names gets
// the pod a node.
func TestWhyPodsWait(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s", "--priority-cutoff", "-100").in(t, "waiting")
	if err := c.admin("POST", "/_nodeless/capacity",
		map[string]any{"type": "m5.8xlarge", "zone": "us-west-2a", "capacityType": "on-demand", "count": 0},
		nil); err != nil {
		t.Fatal(err)
	}
	c.apply(whyPools + "---" + badClass("unready", "al2023@latest", "no-such-cluster"))
	c.wantCondition("nodepool", "unready", "NodeClassReady", "subnetSelectorTerms")
	const alone = 2 // these run before the others: otherwise a pod that avoids them takes their node
	var before, first, others []string
	for i, w := range whyWaiting {
		if w.also != "" {
			before = append(before, w.also)
		}
		if i < alone {
			first = append(first, w.manifest())
		} else {
			others = append(others, w.manifest())
		}
	}
	c.apply(strings.Join(before, "---"))
	c.eventually(2*time.Minute, func() error {
		phases := strings.Fields(c.kubectl("-n", "waiting", "get", "pvc", "-o",
			`jsonpath={.items[?(@.metadata.name!="disk")].status.phase}`))
		if unbound := slices.DeleteFunc(phases, func(p string) bool { return p == "Bound" }); len(unbound) > 0 {
			return fmt.Errorf("%d volumes are %s", len(unbound), unbound[0])
		}
		return nil
	})
	c.apply(strings.Join(first, "---"))
	c.wantPods(2*time.Minute, "waiting", "first", 1)
	c.wantPods(2*time.Minute, "waiting", "holder", 1)
	c.apply(strings.Join(others, "---") + whyShop)
	commands := map[string]string{}
	for _, w := range whyWaiting[alone:] {
		t.Run(w.name, func(t *testing.T) { commands[w.name] = c.as(t).waitingStory(&w) })
	}
	t.Run("a pod of a Deployment", func(t *testing.T) { commands["shop"] = c.as(t).deploymentStory() })
	t.Run("the same as data", func(t *testing.T) {
		a := c.as(t).whyJSON("pod/arch", "-n", "waiting")
		if a.Verdict != "Unschedulable" || a.Change.Object != "kubernetes.io/arch" || a.Change.To != "amd64" ||
			len(a.Reason.Pools) != 9 ||
			a.Change.Command != commands["arch"] || !a.Change.Patch.Anew || len(a.Change.Patch.Patch) != 1 {
			t.Errorf("%+v", a)
		}
		if yaml := c.as(t).why("pod/arch", "-n", "waiting", "-o", "yaml"); !strings.Contains(yaml,
			"\nverdict: Unschedulable\n") {
			t.Errorf("as YAML:\n%s", yaml)
		}
	})
	t.Run("the changes are made", func(t *testing.T) { c.as(t).changesStory(commands) })
}

// as returns the cluster for a test within the test.
func (c *cluster) as(t testing.TB) *cluster {
	inner := *c
	inner.t = t
	return &inner
}

// waitingStory asks about a pending pod, and returns the command that makes the smallest change.
func (c *cluster) waitingStory(w *waiting) string {
	question := append([]string{"pod/" + w.name, "-n", "waiting"}, w.flags...)
	out := c.why(question...)
	if w.rule == "Capacity" { // it is known only after the cloud was called
		c.eventually(time.Minute, func() error {
			if out = c.why(question...); fact(out, "next retry") == "" {
				return errors.New(out)
			}
			return nil
		})
	}
	wantGolden(c.t.(*testing.T), "pod-"+w.name, out)
	change := fact(out, "smallest change")
	switch {
	case w.rule == "" && change != "":
		c.t.Errorf("somebody else decides, and the smallest change is %q", change)
	case w.rule != "" && w.change == "" && change != "none found: no single change would help":
		c.t.Errorf("the smallest change is %q, want none", change)
	case !strings.Contains(change, w.change):
		c.t.Errorf("the smallest change is %q, want %q", change, w.change)
	}
	if slices.Contains([]string{
		"Resource", "Requirement", "Limit", "MinValues", "Volume", "VolumeLimit", "HostPort",
		"PodAffinity", "PodAntiAffinity", "TopologySpread", "VolumeInUse",
	}, w.rule) &&
		!strings.Contains(out, "0 by "+w.rule) {
		c.t.Errorf("the rule %s is not said to leave no type:\n%s", w.rule, out)
	}
	command := fact(out, "command")
	if w.change != "" && (command == "") != (w.fix != nil) {
		c.t.Errorf("the command is %q", command)
	}
	return command
}
