package stories

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// whyShop is a Deployment whose pods wait.
const whyShop = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: waiting}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: burdened}
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 10m}}}]
`

// deploymentStory asks about a pod of a Deployment: the Deployment has to be changed, or its next pods are like this
// one.
func (c *cluster) deploymentStory() string {
	pod := strings.TrimSpace(c.kubectl("-n", "waiting", "get", "pods", "-l", "app=shop", "-o",
		"jsonpath={.items[0].metadata.name}"))
	out := c.why("pod/"+pod, "-n", "waiting")
	wantGolden(c.t.(*testing.T), "pod-of-deployment", strings.ReplaceAll(out, pod, "shop-POD"))
	for _, name := range strings.Fields(c.kubectl("-n", "waiting", "get", "deployments,replicasets", "-l", "app=shop",
		"-o", "name") + " deployment.apps/shop") {
		whole := c.why(name, "-n", "waiting")
		if !strings.Contains(whole, "1 that no node can take") ||
			fact(whole, "smallest change") != fact(out, "smallest change") {
			c.t.Errorf("of %s it is said\n%s", name, whole)
		}
	}
	if command := c.why("deployment/shop", "-n", "waiting", "-o",
		"jsonpath={.change.command}"); strings.TrimSpace(command) != fact(out, "command") {
		c.t.Errorf("as a path of the data the command is %q, want %q", command, fact(out, "command"))
	}
	return fact(out, "command")
}

// do runs a command as printed, in a shell where kubectl is ours.
func (c *cluster) do(command string) error {
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c",
		`kubectl() { "`+absolute(c.t, binary)+`" kubectl "$@"; }; `+command)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// changesStory makes every change that was named, with the command that was named if there is one: each pod gets a
// node.
func (c *cluster) changesStory(commands map[string]string) {
	changed := []string{"shop"}
	all, last := []func() error{func() error { return c.do(commands["shop"]) }}, []*waiting{}
	for _, w := range whyWaiting {
		switch {
		case w.change == "":
			continue
		case w.low:
			last = append(last, &w)
			continue
		case w.fix != nil:
			w.fix(c)
		default:
			all = append(all, func() error { return c.do(commands[w.name]) })
		}
		changed = append(changed, w.name)
	}
	c.atOnce(all)
	for _, name := range changed {
		c.wantPods(120*time.Second, "waiting", name, 1)
	}
	for _, w := range last {
		w.fix(c)
		c.wantPods(2*time.Minute, "waiting", w.name, 1)
	}
	if placed := c.why("pod/taint", "-n", "waiting"); !strings.Contains(placed, "it is bound to") ||
		!strings.Contains(placed, "node costs") {
		c.t.Errorf("of a pod that has its place:\n%s", placed)
	}
	// arch was deleted and recreated with the same name: what was reported and decided for the first pod is not
	// reported for the second.
	for text := range strings.SplitSeq(c.why("pod/arch", "-n", "waiting"), "\n") {
		if strings.Contains(text, "s390x") {
			c.t.Errorf("of a pod that was made again it is said: %s", text)
		}
	}
}
