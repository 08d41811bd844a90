package stories

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// brownfield are the workloads on three node groups: 200 pods of Deployments with budgets, a StatefulSet, singletons,
// a DaemonSet, and Cluster Autoscaler.
const brownfield = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  podManagementPolicy: Parallel
  replicas: 10
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: postgres, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: app, image: agent, resources: {requests: {cpu: 50m}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  selector: {matchLabels: {app: cluster-autoscaler}}
  template:
    metadata: {labels: {app: cluster-autoscaler}}
    spec:
      containers: [{name: app, image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0"}]
`

// impatientScheduler makes kube-scheduler try a pod again after a second, not after up to ten: waits are measured.
const impatientScheduler = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 1
`

// budgeted returns a Deployment with a budget that lets a tenth of its pods be unavailable.
func budgeted(name string, replicas int) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 250m, memory: 512Mi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {maxUnavailable: 10%%, selector: {matchLabels: {app: %[1]s}}}
`, name, replicas)
}

// A cluster moves from three groups with 30 nodes to pools and back, by commands that are killed at random moments:
// no budget is violated, and no pod waits longer than a node takes to boot.
func TestAClusterMovesFromNodeGroupsAndBack(t *testing.T) {
	t.Parallel()
	const boot = 5 * time.Second
	c := newCluster(t, "--boot-time", boot.String(), "--addons=false", "--microvms=false", "--page", "",
		"--scheduler-config", impatientScheduler)
	c.start()
	scaling := autoscaling.NewFromConfig(c.aws)
	before := c.brownfield(scaling)
	foretold := c.foretold(before)
	c.kubectl("wait", "--for=condition=Ready", "nodepool", "--all", "--timeout=240s")
	if got := c.onNodes(); got["groups"] != 200+1 || got["pools"] != 0 {
		t.Fatalf("before it begins: %v", got)
	}

	watch := c.watchMove()
	kills := 0
	random := rand.New(rand.NewPCG(7, 7))
	for _, step := range []string{"observed", "closed", "drained", "emptied"} {
		n := c.throughKills(random, step, "migrate", "next")
		t.Logf("%d kills before the step %q", n, step)
		kills += n
		if s := c.standing(); s.Step != step {
			t.Fatalf("after the step %s it is at %q", step, s.Step)
		}
	}
	c.eventually(time.Minute, func() error { // drained means that the replacements are scheduled
		if got := c.onNodes(); got["groups"] != 0 || got["pools"] != 200 {
			return fmt.Errorf("pods on the pools: %v", got)
		}
		return nil
	})
	if n := c.groupInstances(scaling); n != 0 {
		t.Errorf("the groups have %d instances", n)
	}
	s := c.standing()
	t.Logf("%d kills; $%.2f a month on groups, $%.2f foretold, $%.2f on pools", kills, before, foretold, s.OnPools)
	if s.OnGroups != 0 || math.Abs(s.OnPools-foretold) > 0.02*foretold {
		t.Errorf("$%.2f on groups and $%.2f on pools after the move; the report foretold %.2f", s.OnGroups, s.OnPools,
			foretold)
	}

	kills += c.throughKills(random, "not begun", "migrate", "back")
	c.eventually(time.Minute, func() error {
		if got := c.onNodes(); got["groups"] != 200+1 || got["pools"] != 0 {
			return fmt.Errorf("pods after going back: %v", got)
		}
		return nil
	})
	if n := c.groupInstances(scaling); n != 30 {
		t.Errorf("the groups have %d instances again", n)
	}
	watch()
	if kills < 20 {
		t.Errorf("only %d commands were killed", kills)
	}
}

// foretold migrates the groups to pools with more instance types, and returns the monthly cost that the report
// predicts.
func (c *cluster) foretold(today float64) float64 {
	c.t.Helper()
	out, err := c.run("migrate", "--from-cluster", "--from-aws", "--cluster-name", "nodeless", "--widen", "--apply", "-o",
		"json")
	var report struct {
		Bill struct {
			Today struct{ DollarsPerMonth float64 }
			Then  []struct {
				Pools           string
				DollarsPerMonth float64
			}
		}
	}
	if at := strings.Index(out, "\n{"); at > 0 { // warnings are printed first
		out = out[at:]
	}
	if err := cmp.Or(err, json.Unmarshal([]byte(out), &report)); err != nil {
		c.t.Fatalf("migrate: %v\n%s", err, out)
	}
	b := report.Bill
	if len(b.Then) == 0 || math.Abs(b.Today.DollarsPerMonth-today) > 0.01 {
		c.t.Fatalf("the report says %+v, the nodes cost %.2f", b, today)
	}
	c.t.Logf("foretold: %+v", b.Then)
	return b.Then[len(b.Then)-1].DollarsPerMonth
}

// brownfield creates the groups and the workloads, and returns the nodes' monthly cost.
func (c *cluster) brownfield(scaling *autoscaling.Client) float64 {
	c.t.Helper()
	ctx, managed := context.Background(), eks.NewFromConfig(c.aws)
	c.kubectl("delete", "nodepool", "general-purpose") // so that the only pools are those of the groups
	ids := c.subnets(ctx)
	for _, name := range []string{"web", "batch"} {
		_, err := managed.CreateNodegroup(ctx, &eks.CreateNodegroupInput{
			ClusterName: aws.String("nodeless"), NodegroupName: &name, Subnets: ids,
			NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"), InstanceTypes: []string{"m5.xlarge"},
			ScalingConfig: &ekstypes.NodegroupScalingConfig{
				MinSize: aws.Int32(2), MaxSize: aws.Int32(15), DesiredSize: aws.Int32(10),
			},
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	c.selfManaged(ctx, scaling, ids)
	c.eventually(time.Minute, func() error {
		if n := strings.Count(c.kubectl("get", "nodes", "--no-headers"), " Ready "); n != 30 {
			return fmt.Errorf("%d of 30 nodes are ready", n)
		}
		return nil
	})
	c.apply(brownfield + budgeted("api", 120) + budgeted("shop", 60) + budgeted("one", 1) + budgeted("nine", 9))
	c.eventually(time.Minute, func() error {
		if got := c.onNodes(); got["groups"] != 200+1 {
			return fmt.Errorf("pods %v", got)
		}
		return nil
	})
	return c.standing().OnGroups
}

// selfManaged creates a group of ten with the launch template of a managed one.
func (c *cluster) selfManaged(ctx context.Context, scaling *autoscaling.Client, subnets []string) {
	c.t.Helper()
	found, err := c.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{"web"}},
	}})
	if err != nil || len(found.LaunchTemplates) != 1 {
		c.t.Fatalf("launch templates %v, %v", found, err)
	}
	_, err = scaling.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("own"), MinSize: aws.Int32(0), MaxSize: aws.Int32(20),
		DesiredCapacity: aws.Int32(10), VPCZoneIdentifier: aws.String(strings.Join(subnets, ",")),
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: found.LaunchTemplates[0].LaunchTemplateId},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) groupInstances(scaling *autoscaling.Client) int {
	c.t.Helper()
	out, err := scaling.DescribeAutoScalingGroups(context.Background(), &autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for _, g := range out.AutoScalingGroups {
		n += len(g.Instances)
	}
	return n
}

// standing is the output of `nodeless migrate status -o json`.
type standing struct {
	Step     string  `json:"step"`
	OnGroups float64 `json:"groupsDollarsPerMonth"`
	OnPools  float64 `json:"poolsDollarsPerMonth"`
}

func (c *cluster) standing() standing {
	c.t.Helper()
	out, err := c.run("migrate", "status", "-o", "json")
	var s standing
	if err != nil || json.Unmarshal([]byte(out), &s) != nil {
		c.t.Fatalf("status: %v\n%s", err, out)
	}
	return s
}

// throughKills runs a command again and again, killing it after a random and on average ever longer time, until it
// completes. A kill may also come too late, after the step was completed. It returns the number of kills.
func (c *cluster) throughKills(random *rand.Rand, step string, args ...string) int {
	c.t.Helper()
	const limit = 20 * time.Minute
	for kills, began := 0, time.Now(); time.Since(began) < limit; kills++ {
		if kills > 0 && c.standing().Step == step && step != "not begun" {
			return kills
		}
		patience := time.Duration(100+random.IntN(500*(1+kills))) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
		out, err := cmd.CombinedOutput()
		killed := ctx.Err() != nil
		cancel()
		if err == nil {
			return kills
		}
		if !killed {
			c.t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	c.t.Fatalf("%v did not end within %s", args, limit)
	return 0
}

// onNodes counts the running pods, except those of DaemonSets, on nodes of groups and of pools.
func (c *cluster) onNodes() map[string]int {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.Client.List(context.Background(), &pods); err != nil {
		c.t.Fatal(err)
	}
	pools := map[string]bool{}
	for _, n := range c.nodes() {
		pools[n.Name] = n.Labels["karpenter.sh/nodepool"] != ""
	}
	out := map[string]int{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || p.OwnerReferences[0].Kind == "DaemonSet" {
			continue
		}
		if pools[p.Spec.NodeName] {
			out["pools"]++
		} else {
			out["groups"]++
		}
	}
	return out
}

// slowestNode returns the longest time from the creation of a NodeClaim that exists until its node was initialized.
func (c *cluster) slowestNode(ctx context.Context) (slowest time.Duration) {
	var claims karpv1.NodeClaimList
	if err := c.Client.List(ctx, &claims); err != nil {
		return 0
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if initialized := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); initialized.IsTrue() {
			slowest = max(slowest, initialized.LastTransitionTime.Sub(claim.CreationTimestamp.Time))
		}
	}
	return slowest
}

// watchMove watches budgets, pending pods and how long nodes take until the returned function is called.
func (c *cluster) watchMove() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	const period = 250 * time.Millisecond
	least, since, last := map[string]int{}, map[client.ObjectKey]time.Time{}, time.Now()
	var longest, slowest, stalled time.Duration // stalled: how late the watcher was, and so may be all else
	done.Go(func() {
		for ticks := time.NewTicker(period); ; {
			var pods corev1.PodList
			if err := c.Client.List(ctx, &pods); err == nil {
				ready, now := map[string]int{}, time.Now()
				waiting := map[client.ObjectKey]time.Time{}
				for i := range pods.Items {
					p := &pods.Items[i]
					switch {
					case p.DeletionTimestamp != nil:
					case p.Status.Phase == corev1.PodRunning:
						ready[p.Labels["app"]]++
					case p.Spec.NodeName == "" && p.Labels["app"] != "agent":
						key := client.ObjectKeyFromObject(p)
						if waiting[key] = since[key]; waiting[key].IsZero() {
							waiting[key] = now
						}
						longest = max(longest, now.Sub(waiting[key]))
					}
				}
				since = waiting
				for app, n := range ready {
					if had, ok := least[app]; !ok || n < had {
						least[app] = n
					}
				}
			}
			slowest = max(slowest, c.slowestNode(ctx))
			select {
			case <-ticks.C:
				stalled, last = max(stalled, time.Since(last)-period), time.Now()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
		c.t.Logf("fewest pods running %v, the longest wait for a node %s, the slowest node %s, the longest stall %s", least,
			longest, slowest, stalled)
		for app, n := range map[string]int{"api": 108, "shop": 54, "nine": 8} {
			if least[app] < n {
				c.t.Errorf("%s had %d pods running, its budget asks for %d", app, least[app], n)
			}
		}
		if limit := slowest + 10*time.Second + stalled; longest > limit {
			c.t.Errorf("a pod waited %s for a node, more than %s", longest, limit)
		}
		if len(least) == 0 {
			c.t.Error(errors.New("nothing was watched"))
		}
	}
}

// Pods that no NodePool has a place for stay where they are, and the step says which and why. A group that is deleted
// leaves its role in aws-auth to the nodes that NodePools launched with it.
func TestAMigrationEvictsNoPodWithoutAPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--addons=false", "--microvms=false", "--page", "")
	c.start()
	c.kubectl("delete", "nodepool", "general-purpose")
	ctx := context.Background()
	const role = "arn:aws:iam::123456789012:role/nodes"
	_, err := eks.NewFromConfig(c.aws).CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web"), Subnets: c.subnets(ctx),
		NodeRole: aws.String(role), InstanceTypes: []string{"m5.xlarge"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{
			MinSize: aws.Int32(1), MaxSize: aws.Int32(3), DesiredSize: aws.Int32(2),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const grace = "      terminationGracePeriodSeconds"
	c.apply(budgeted("free", 3) + strings.Replace(budgeted("pinned", 3), grace,
		"      nodeSelector: {eks.amazonaws.com/nodegroup: web}\n"+grace, 1))
	c.kubectl("delete", "pdb", "--all")
	c.kubectl("rollout", "status", "deployment", "pinned", "--timeout=240s")
	c.kubectl("rollout", "status", "deployment", "free", "--timeout=240s")
	uids := func() string {
		return c.kubectl("get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.uid}{"\n"}{end}`)
	}
	before := uids()
	next := func(args ...string) (string, error) {
		out, err := c.run(append([]string{"migrate", "next"}, args...)...)
		t.Logf("migrate next %q: %v\n%s", args, err, out)
		return out, err
	}
	if out, err := c.run("migrate", "--from-aws", "--apply"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.kubectl("wait", "--for=condition=Ready", "nodepool", "--all", "--timeout=240s")
	if out, err := next(); err != nil || !strings.Contains(out, "default/pinned-") {
		t.Errorf("the first step does not foretell it: %v\n%s", err, out)
	}
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	out, err := next()
	if err == nil || !strings.Contains(out, "would get no node: default/pinned-") ||
		strings.Contains(out, "default/free-") {
		t.Errorf("the drain: %v\n%s", err, out)
	}
	if after := uids(); after != before || c.standing().Step != "closed" {
		t.Fatalf("step %q; pods\n%s\nwere\n%s", c.standing().Step, after, before)
	}

	c.kubectl("patch", "deployment", "pinned", "--type=json", "-p",
		`[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]`)
	c.kubectl("rollout", "status", "deployment", "pinned", "--timeout=240s")
	for _, args := range [][]string{nil, nil, {"--remove"}} {
		if _, err := next(args...); err != nil {
			t.Fatal(err)
		}
	}
	c.eventually(time.Minute, func() error { // drained means that the replacements are scheduled
		if got := c.onNodes(); got["pools"] != 6 || got["groups"] != 0 {
			return fmt.Errorf("pods %v", got)
		}
		return nil
	})
	auth := c.kubectl("get", "configmap", "-n", "kube-system", "aws-auth", "-o", "yaml")
	if !strings.Contains(auth, role) {
		t.Errorf("aws-auth lacks the role:\n%s", auth)
	}
}
