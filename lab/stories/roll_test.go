package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// spreadOut is a Deployment of ten pods on at least five nodes. Its budget allows one pod to be unavailable.
const spreadOut = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 10
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, minDomains: 5, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: shop}}}
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 500m, memory: 512Mi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: shop}}}
`

// neverStarts is a pod that the budget counts and that fits no node: it is the one that may be unavailable.
const neverStarts = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck}
spec:
  selector: {matchLabels: {app: shop, stuck: "yes"}}
  template:
    metadata: {labels: {app: shop, stuck: "yes"}}
    spec:
      nodeSelector: {nowhere: "yes"}
      containers: [{name: app, image: nginx}]
`

// A command that is killed midway and started again replaces all nodes of a NodePool: no budget is violated, and no
// node is replaced twice.
func TestAPoolIsRolled(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "2s", "--microvms=false", "--page", "")
	c.apply(spreadOut)
	c.wantPods(2*time.Minute, "default", "shop", 10)
	before := c.nodeNames()

	out, err := c.run("roll", "nodepool", "general-purpose", "--force")
	if err != nil || !strings.Contains(out, "replace ") || !strings.Contains(out, "Costs ") ||
		!strings.Contains(out, "--yes replaces them") {
		t.Errorf("without --yes: %v\n%s", err, out)
	}
	if got := c.rollRow("nodepool"); got.Status != "Ready" || got.NeedUpdate != 0 {
		t.Errorf("without --yes something has changed: %+v", got)
	}

	fewest := c.watchRunning("shop")
	out, code := c.endOnce(os.Kill, func(string) error {
		if got := c.rollRow("nodepool"); got.Status != "Updating" {
			return fmt.Errorf("the pool is %+v", got)
		}
		return nil
	}, "roll", "nodepool", "general-purpose", "--force", "--yes")
	if code != -1 {
		t.Errorf("the command ended before it was killed, with %d:\n%s", code, out)
	}
	if got := c.rollRow("nodepool"); got.Status != "Updating" || got.NeedUpdate == 0 {
		t.Errorf("after a kill the roll stands at %+v", got)
	}
	out, err = c.run("roll", "nodepool", "general-purpose", "--force", "--yes", "--timeout", "5m")
	if n := fewest(); err != nil || n < 9 {
		t.Errorf("%v; %d of 10 pods ran at least, the budget asks for 9\n%s", err, n, out)
	}
	for name := range c.nodeNames() {
		if before[name] {
			t.Errorf("node %s is still there", name)
		}
	}
	if got := c.rollRow("nodepool"); got.Status != "Ready" || got.NeedUpdate != 0 || got.Ready < 5 {
		t.Errorf("in the end the pool is %+v", got)
	}
	after := c.nodeNames()
	if out, err := c.run("roll", "nodepool", "--yes"); err != nil || !strings.Contains(out, "No node needs an update") {
		t.Errorf("once more: %v\n%s", err, out)
	}
	for name := range c.nodeNames() {
		if !after[name] {
			t.Errorf("node %s was launched for a roll that was done", name)
		}
	}
}

// An error about a blocked roll of a pool names the budget and the pool; an error about an unknown pool lists those
// that exist.
func TestARollOfAPoolSaysWhatHoldsIt(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--microvms=false", "--page", "")
	c.apply(spreadOut)
	c.wantPods(2*time.Minute, "default", "shop", 10)
	c.kubectl("patch", "nodepool", "general-purpose", "--type=merge", "-p",
		`{"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}`)
	out, err := c.run("roll", "nodepool", "general-purpose", "--force", "--yes", "--timeout", "60s")
	c.refused(out, err, "nodes left to replace after 1m0s", "budget", "general-purpose", "the same command follows it again")
	out, err = c.run("roll", "nodepool", "nope")
	c.refused(out, err, "nodeless: NodePool not found: nope; there are: general-purpose")
}

// A command that is killed several times replaces the nodes of an Auto Scaling group with a new version of its launch
// template: no budget is violated, and in the end the group has its original size and nothing of the roll is left.
func TestAGroupIsRolled(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "2s", "--microvms=false", "--page", "")
	template := c.ownGroup(5)
	c.apply(spreadOut)
	c.wantPods(2*time.Minute, "default", "shop", 10)
	if got := c.rollRow("group", "own"); got.Status != "Ready" || got.Ready != 5 {
		t.Fatalf("before: %+v", got)
	}
	before := c.nodeNames()
	c.newVersion(template, ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM6iXlarge})
	if got := c.rollRow("group", "own"); got.Status != "NeedsUpdate" || got.NeedUpdate != 5 || got.Ready != 0 {
		t.Fatalf("with a new version: %+v", got)
	}

	fewest := c.watchRunning("shop")
	for _, after := range []time.Duration{time.Second, 6 * time.Second, 9 * time.Second, 9 * time.Second} {
		c.kill(after, "roll", "group", "own", "--yes")
	}
	t.Logf("after four kills: %+v", c.rollRow("group", "own"))
	out, code := c.endOnce(os.Interrupt, func(said string) error { // it prints the table and begins
		if !strings.Contains(said, "NEEDUPDATE") || !strings.Contains(said, "\nown ") {
			return fmt.Errorf("no table of the group in %q", said)
		}
		return nil
	}, "roll", "group", "own", "--yes")
	if code != 130 || !strings.Contains(out, "interrupted; nothing is lost: the same command goes on") {
		t.Errorf("Ctrl-C ends with %d:\n%s", code, out)
	}
	out, err := c.run("roll", "group", "own", "--yes", "--drain-timeout", "2m")
	t.Log(out)
	if n := fewest(); err != nil || n < 9 {
		t.Errorf("%v; %d of 10 pods ran at least, the budget asks for 9\n%s", err, n, out)
	}
	c.wantGone(before) // the last instance ends two seconds after the roll terminates it
	if got := c.rollRow("group", "own"); got.Status != "Ready" || got.Ready != 5 || got.Nodes != 5 {
		t.Errorf("in the end the group is %+v", got)
	}
	for _, n := range c.nodes() {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			t.Errorf("node %s is left cordoned or tainted: %+v", n.Name, n.Spec)
		}
	}
	if left, err := c.instances(); err != nil || len(left) != 5 {
		t.Errorf("%d instances run, want 5 (%v)", len(left), err)
	}
}

// When a roll of groups fails, its error names the object and says what helps.
func TestARollOfAGroupThatCannotGoOn(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--microvms=false", "--page", "")
	template := c.ownGroup(2)
	out, err := c.run("roll", "group", "nope")
	c.refused(out, err, "nodeless: group not found: nope; there are: own, seed")
	// On two nodes a strict spread would keep evicted pods pending: a cordoned node counts as one to spread over.
	c.apply(strings.NewReplacer("minDomains: 5, ", "", "DoNotSchedule", "ScheduleAnyway").Replace(spreadOut))
	c.wantPods(time.Minute, "default", "shop", 10)
	c.newVersion(template, ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-0123456789abcdef0")})
	out, err = c.run("roll", "group", "own", "--yes", "--validation-timeout", "60s")
	c.refused(out, err, "still waiting after 1m0s: ", "its last launch failed: ", "ami-0123456789abcdef0", "goes on here")
	c.newVersion(template, ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM6iXlarge})

	c.kubectl("patch", "pdb", "shop", "--type=merge", "-p", `{"spec":{"maxUnavailable":0}}`)
	never := "is never to be evicted by its PodDisruptionBudget shop"
	c.eventually(time.Minute, func() error {
		if out, err := c.run("roll", "group", "own"); err != nil || !strings.Contains(out, never) {
			return fmt.Errorf("the preview does not say %q: %w\n%s", never, err, out)
		}
		return nil
	})
	out, err = c.run("roll", "group", "own", "--yes")
	c.refused(out, err, "10 pods are in the way: default/shop-", never, "--fail-on-drain-error=false")

	c.kubectl("patch", "pdb", "shop", "--type=merge", "-p", `{"spec":{"maxUnavailable":1}}`)
	c.kubectl("wait", "pdb/shop", "--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=240s")
	c.apply(neverStarts)
	c.kubectl("wait", "pdb/shop", "--for=jsonpath={.status.disruptionsAllowed}=0", "--timeout=240s")
	out, err = c.run("roll", "group", "own", "--yes", "--drain-timeout", "4s")
	c.refused(out, err, "drain node ip-", "default/shop-", "PodDisruptionBudget shop allows no eviction",
		"--fail-on-drain-error=false")
	if got := c.rollRow("group", "own"); got.Status != "Updating" {
		t.Errorf("after a drain that failed: %+v", got)
	}
	c.kubectl("delete", "deployment", "stuck")
	if out, err := c.run("roll", "group", "own", "--yes", "--drain-timeout", "5m"); err != nil {
		t.Errorf("without the pod that never started: %v\n%s", err, out)
	}
	c.kubectl("scale", "deployment", "shop", "--replicas=5") // one node has room for five, which a surge of 0 needs
	c.wantPods(time.Minute, "default", "shop", 5)
	for _, surge := range []string{"2", "0"} {
		rolled := c.nodeNames()
		out, err := c.run("roll", "group", "own", "--force", "--yes", "--max-surge", surge, "--drain-timeout", "5m")
		if err != nil || strings.Contains(out, "detached") != (surge != "0") {
			t.Errorf("--force with a surge of %s: %v\n%s", surge, err, out)
		}
		c.wantGone(rolled)
	}
	c.kubectl("run", "alone", "--image=nginx")
	c.kubectl("wait", "pod/alone", "--for=condition=Ready", "--timeout=240s")
	out, err = c.run("roll", "group", "own", "--force", "--yes")
	c.refused(out, err, "default/alone has no controller and would be lost", "--fail-on-drain-error=false")
	if got := c.rollRow("group", "own"); got.Status != "Ready" {
		t.Errorf("a roll that did not begin leaves the group %+v", got)
	}
	_, err = c.ec2.DeleteLaunchTemplate(context.Background(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &template})
	if err != nil {
		t.Fatal(err)
	}
	out, err = c.run("roll", "group", "own", "--yes")
	c.refused(out, err, "group own cannot launch instances", template, "does not exist",
		"aws autoscaling update-auto-scaling-group")
}

// newVersion creates a version of a launch template that differs from the first in some data.
func (c *cluster) newVersion(template string, data ec2types.RequestLaunchTemplateData) {
	c.t.Helper()
	_, err := c.ec2.CreateLaunchTemplateVersion(context.Background(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &template, SourceVersion: aws.String("1"), LaunchTemplateData: &data,
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// refused checks that the program failed with exit code 2, and what it said.
func (c *cluster) refused(out string, err error, words ...string) {
	c.t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
		c.t.Errorf("ended with %v, want exit code 2:\n%s", err, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("does not say %q:\n%s", w, out)
		}
	}
}

// ownGroup creates an Auto Scaling group that uses the newest version of a launch template, and returns the
// template's ID. The template is that of a managed group without nodes.
func (c *cluster) ownGroup(size int32) string {
	c.t.Helper()
	ctx := context.Background()
	ids := c.subnets(ctx)
	c.kubectl("delete", "nodepool", "general-purpose")
	seed := "seed"
	_, err := eks.NewFromConfig(c.aws).CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodeless"), NodegroupName: &seed, Subnets: ids,
		NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"), InstanceTypes: []string{"m5.xlarge"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{
			MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredSize: aws.Int32(0),
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	found, err := c.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{seed}},
	}})
	if err != nil || len(found.LaunchTemplates) != 1 {
		c.t.Fatalf("launch templates %v, %v", found, err)
	}
	id := found.LaunchTemplates[0].LaunchTemplateId
	_, err = autoscaling.NewFromConfig(c.aws).CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("own"), MinSize: aws.Int32(0), MaxSize: &size, DesiredCapacity: &size,
		VPCZoneIdentifier: aws.String(strings.Join(ids, ",")),
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: id, Version: aws.String("$Latest")},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually(time.Minute, func() error {
		if n := strings.Count(c.kubectl("get", "nodes", "--no-headers"), " Ready "); n != int(size) {
			return fmt.Errorf("%d of %d nodes are ready", n, size)
		}
		return nil
	})
	return *id
}

// kill runs a command and kills it after a while, if it is still running.
func (c *cluster) kill(after time.Duration, args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code > 0 {
		c.t.Errorf("%v: %d\n%s", args, code, out)
	}
}

// endOnce runs a command and sends it a signal once a condition on the cluster and its output so far holds. It returns
// the output and the exit code, which is -1 if the signal ended it.
func (c *cluster) endOnce(by os.Signal, holds func(said string) error, args ...string) (string, int) {
	c.t.Helper()
	cmd, out := exec.CommandContext(c.t.Context(), binary, args...), new(recorder)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(c.environment(), "NODELESS_DATA_DIR="+c.dir), out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.eventually(time.Minute, func() error { return holds(out.String()) })
	_ = cmd.Process.Signal(by)
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// rollRow is an element of the output of `nodeless roll KIND -o json`.
type rollRow struct {
	Name, Status             string
	NeedUpdate, Ready, Nodes int
}

func (c *cluster) rollRow(kind string, names ...string) rollRow {
	c.t.Helper()
	out, err := c.run(append([]string{"roll", kind, "-o", "json"}, names...)...)
	var table struct{ Rows []rollRow }
	if err != nil || json.Unmarshal([]byte(out), &table) != nil || len(table.Rows) != 1 {
		c.t.Fatalf("roll %s %v: %v\n%s", kind, names, err, out)
	}
	return table.Rows[0]
}

// watchRunning watches how many pods of an app run. The returned function stops it and returns the lowest number
// seen.
func (c *cluster) watchRunning(app string) (fewest func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	least := -1
	done.Go(func() {
		for ticks := time.NewTicker(100 * time.Millisecond); ; {
			var pods corev1.PodList
			if err := c.Client.List(ctx, &pods, client.MatchingLabels{"app": app}); err == nil {
				running := 0
				for i := range pods.Items {
					if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
						running++
					}
				}
				if least < 0 || running < least {
					least = running
				}
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return least
	}
}
