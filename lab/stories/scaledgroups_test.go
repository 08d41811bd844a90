package stories

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// scaledGroup is an Auto Scaling group of one instance type, with its own launch template.
type scaledGroup struct {
	name, instanceType     string
	min, max, desired      int32
	labels, taints, tagged string // the kubelet's labels and taints, and the group's tags: KEY=VALUE, separated by commas
}

// createScaledGroup creates the launch template and the group, in one zone.
func (c *cluster) createScaledGroup(g scaledGroup) {
	c.t.Helper()
	ctx := context.Background()
	images, err := c.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
		{Name: aws.String("architecture"), Values: []string{"x86_64"}},
	}})
	if err != nil || len(images.Images) == 0 {
		c.t.Fatal("images:", err)
	}
	user := "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: nodeless}\n  kubelet:\n" +
		"    config: {registerWithTaints: [" + g.taints + "]}\n    flags: [\"--node-labels=" + g.labels + "\"]\n"
	_, err = c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &g.name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, InstanceType: ec2types.InstanceType(g.instanceType),
			UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(user))),
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &g.name, MinSize: &g.min, MaxSize: &g.max, DesiredCapacity: &g.desired,
		VPCZoneIdentifier: aws.String(c.subnets(ctx)[0]),
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateName: &g.name},
	}
	for pair := range strings.SplitSeq(g.tagged, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			in.Tags = append(in.Tags, scalingtypes.Tag{
				Key: &key, Value: &value, PropagateAtLaunch: aws.Bool(false), ResourceId: &g.name,
				ResourceType: aws.String("auto-scaling-group"),
			})
		}
	}
	if _, err := c.scaling().CreateAutoScalingGroup(ctx, in); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) scaling() *autoscaling.Client { return autoscaling.NewFromConfig(c.aws) }

// wantDesired waits until groups have these desired capacities and as many instances: "cheap=1 dear=0".
func (c *cluster) wantDesired(within time.Duration, want string) {
	c.t.Helper()
	c.eventually(within, func() error {
		out, err := c.scaling().DescribeAutoScalingGroups(context.Background(),
			&autoscaling.DescribeAutoScalingGroupsInput{})
		if err != nil {
			return err
		}
		var have []string
		for _, g := range out.AutoScalingGroups {
			text := fmt.Sprintf("%s=%d", *g.AutoScalingGroupName, *g.DesiredCapacity)
			if len(g.Instances) != int(*g.DesiredCapacity) {
				text += fmt.Sprintf("(%d)", len(g.Instances))
			}
			have = append(have, text)
		}
		slices.Sort(have)
		if got := strings.Join(have, " "); got != want {
			return fmt.Errorf("groups: %s, want %s", got, want)
		}
		return nil
	})
}

// hasOrdered reports whether a group's desired capacity is above zero.
func (c *cluster) hasOrdered(name string) bool {
	out, err := c.scaling().DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	return err == nil && len(out.AutoScalingGroups) == 1 && *out.AutoScalingGroups[0].DesiredCapacity > 0
}

// poolOfGroup returns a NodeGroup with a NodePool whose nodes are removed as soon as they are not needed.
func poolOfGroup(name string) string {
	return fmt.Sprintf(`---
apiVersion: nodeless.sh/v1alpha1
kind: NodeGroup
metadata: {name: %[1]s}
spec: {autoScalingGroupName: %[1]s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  disruption: {consolidateAfter: 1s, budgets: [{nodes: 100%%}]}
  template:
    spec:
      expireAfter: Never
      requirements: []
      nodeClassRef: {group: nodeless.sh, kind: NodeGroup, name: %[1]s}
`, name)
}

// onDemandPool is a NodePool of one instance type.
const onDemandPool = `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool}
spec:
  disruption: {consolidateAfter: 1s, budgets: [{nodes: 100%}]}
  template:
    spec:
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

// podsOf returns a Deployment whose pods request CPU.
func podsOf(name string, replicas int, cpu string) string {
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
      containers: [{name: app, image: nginx, resources: {requests: {cpu: %[3]s, memory: 1Gi}}}]
`, name, replicas, cpu)
}

// One decision by price over two Auto Scaling groups and a NodePool: from zero to the cheapest that fits, to the next
// one once a group is at its maximum, and back to zero.
func TestGroupsAndAPoolAreChosenByPrice(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--microvms=false", "--page", "")
	c.kubectl("delete", "nodepool", "--all")
	c.createScaledGroup(scaledGroup{name: "cheap", instanceType: "t3a.large", max: 1})
	c.createScaledGroup(scaledGroup{name: "dear", instanceType: "m5.2xlarge", max: 3})
	c.apply(poolOfGroup("cheap") + poolOfGroup("dear") + onDemandPool)
	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", "nodegroups", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.minSize} `+
			`{.status.maxSize} {.status.instanceTypes} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if want := "cheap  1 [\"t3a.large\"] True\ndear  3 [\"m5.2xlarge\"] True\n"; out != want {
			return fmt.Errorf("node groups:\n%s", out)
		}
		return nil
	})

	begun := time.Now()
	c.apply(podsOf("web", 1, "1500m")) // fits anywhere; t3a.large is the cheapest
	c.eventually(time.Minute, func() error {
		if !c.hasOrdered("cheap") {
			return errors.New("no instance of the group cheap is ordered")
		}
		return nil
	})
	ordered := time.Since(begun)
	c.wantPods(time.Minute, "default", "web", 1)
	t.Logf("from zero: an instance ordered %s after the pod was applied, the pod running after %s",
		ordered.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	c.wantDesired(time.Minute, "cheap=1 dear=0")

	c.apply(podsOf("large", 1, "6500m")) // fits only on m5.2xlarge
	c.wantPods(time.Minute, "default", "large", 1)
	c.wantDesired(time.Minute, "cheap=1 dear=1")

	c.apply(podsOf("web", 2, "1500m")) // the cheap group is at its maximum: the pool's m5.large is next
	c.wantPods(time.Minute, "default", "web", 2)
	c.wantDesired(time.Minute, "cheap=1 dear=1")
	if got := c.poolsOfClaims(); got != "cheap dear pool" {
		t.Errorf("NodeClaims of the pools %s", got)
	}

	c.kubectl("delete", "deployment", "web", "large")
	begun = time.Now()
	c.wantDesired(time.Minute, "cheap=0 dear=0")
	t.Logf("to zero: %s after the pods were deleted, with consolidateAfter 1s", time.Since(begun).Round(time.Millisecond))
	c.eventually(time.Minute, c.nothingLeft)
}

// poolsOfClaims lists the pools of all NodeClaims.
func (c *cluster) poolsOfClaims() string {
	c.t.Helper()
	var out []string
	for _, claim := range c.claims() {
		out = append(out, claim.Labels["karpenter.sh/nodepool"])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Groups with Cluster Autoscaler's tags are discovered, their existing nodes are adopted unchanged, their minimum is
// kept, and Cluster Autoscaler's annotations are respected.
func TestDiscoveredGroupsKeepTheirNodesAndTheirMinimum(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--microvms=false", "--controller=false", "--page", "")
	tags := "k8s.io/cluster-autoscaler/enabled=true,k8s.io/cluster-autoscaler/nodeless=owned," +
		"k8s.io/cluster-autoscaler/node-template/label/team=Web," +
		"k8s.io/cluster-autoscaler/node-template/taint/team=web:NoSchedule"
	c.createScaledGroup(scaledGroup{
		name: "Web_Nodes", instanceType: "m5.large", min: 1, max: 4, desired: 3, tagged: tags,
		labels: "team=Web", taints: "{key: team, value: web, effect: NoSchedule}",
	})
	c.createScaledGroup(scaledGroup{name: "untagged", instanceType: "m5.large", max: 4, desired: 1})
	c.wantNodes(4)
	before := c.nodeUIDs()
	c.replica("one", "--node-group-auto-discovery",
		"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/nodeless", "--priority-cutoff", "-10")

	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", "nodeclaims", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Initialized")].status} {end}`)
		if out != "True True True " {
			return fmt.Errorf("NodeClaims initialized: %q", out)
		}
		return nil
	})
	if after := c.nodeUIDs(); after != before {
		t.Errorf("nodes before\n%s\nand after they were adopted\n%s", before, after)
	}
	group := c.kubectl("get", "nodegroups", "-o", "jsonpath={.items[*].metadata.name}")
	if !strings.HasPrefix(group, "web-nodes-") || strings.Contains(group, " ") {
		t.Fatalf("node groups %q", group)
	}

	// A pod that is not safe to evict stays, and so does its node. The minimum keeps no other node.
	c.apply(strings.NewReplacer(
		"labels: {app: held}}", `labels: {app: held}, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}}`,
		"terminationGracePeriodSeconds: 1",
		"nodeSelector: {team: Web}\n      tolerations: [{key: team, operator: Exists}]").Replace(podsOf("held", 1, "100m")))
	c.wantPods(time.Minute, "default", "held", 1)
	c.kubectl("patch", "nodepool", group, "--type=merge", "-p",
		`{"spec":{"disruption":{"consolidateAfter":"0s","budgets":[{"nodes":"100%"}]}}}`)
	c.wantDesired(time.Minute, "Web_Nodes=1 untagged=1")
	held := c.kubectl("get", "pods", "-l", "app=held", "-o", "jsonpath={.items[*].spec.nodeName}")
	if out, _ := c.run("why", "node", held); !strings.Contains(out, "safe-to-evict") {
		t.Errorf("why of the node of a pod that is not safe to evict:\n%s", out)
	}
	c.kubectl("delete", "deployment", "held")
	c.eventually(time.Minute, func() error {
		if out, _ := c.run("why", "node", held); !strings.Contains(out, "keeps at least 1 node") {
			return fmt.Errorf("why of the last node:\n%s", out)
		}
		return nil
	})

	// An expendable pod uses free capacity and triggers no launch; other pods do, up to the maximum.
	c.apply(`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: expendable}, value: -20}`)
	tolerant := func(name string, replicas int, more string) string {
		return strings.NewReplacer("terminationGracePeriodSeconds: 1",
			"nodeSelector: {team: Web}\n      tolerations: [{key: team, operator: Exists}]\n      "+more).
			Replace(podsOf(name, replicas, "1500m"))
	}
	c.apply(tolerant("cheap", 2, "priorityClassName: expendable"))
	c.eventually(time.Minute, func() error {
		if got := c.phases("default", "cheap"); got["Running"] != 1 || got["Pending"] != 1 {
			return fmt.Errorf("expendable pods %v", got)
		}
		return nil
	})
	c.wantDesired(10*time.Second, "Web_Nodes=1 untagged=1")
	c.apply(tolerant("web", 5, "terminationGracePeriodSeconds: 1"))
	c.eventually(time.Minute, func() error {
		if got := c.phases("default", "web"); got["Running"] != 4 || got["Pending"] != 1 {
			return fmt.Errorf("pods of a group of four nodes: %v", got)
		}
		return nil
	})
	c.wantDesired(time.Minute, "Web_Nodes=4 untagged=1")
	waits := c.kubectl("get", "pods", "-l", "app=web", "--field-selector", "status.phase=Pending", "-o",
		"jsonpath={.items[*].metadata.name}")
	if out, _ := c.run("why", "pod", waits); !strings.Contains(out, "has its maximum of 4 nodes") ||
		strings.Contains(out, "limits") {
		t.Errorf("why of a pod beyond the maximum:\n%s", out)
	}
	c.kubectl("delete", "deployment", "web", "cheap")
	c.wantDesired(time.Minute, "Web_Nodes=1 untagged=1")
	c.wantNodes(2)

	// A group that is no longer managed keeps its nodes.
	before = c.nodeUIDs()
	c.kubectl("delete", "nodegroup", group, "--wait=false")
	_, err := c.scaling().DeleteTags(context.Background(), &autoscaling.DeleteTagsInput{Tags: []scalingtypes.Tag{{
		Key: aws.String("k8s.io/cluster-autoscaler/enabled"), ResourceId: aws.String("Web_Nodes"),
		ResourceType: aws.String("auto-scaling-group"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually(time.Minute, func() error {
		if out := c.kubectl("get", "nodegroups,nodeclaims", "-o", "name"); out != "" {
			return errors.New("still there: " + out)
		}
		return nil
	})
	c.wantDesired(time.Minute, "Web_Nodes=1 untagged=1")
	if after := c.nodeUIDs(); after != before {
		t.Errorf("nodes before\n%s\nand after their group was let go\n%s", before, after)
	}
}

// wantNodes waits until there are n nodes, all of them ready.
func (c *cluster) wantNodes(n int) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
		if want := strings.Repeat("True ", n); out != want {
			return fmt.Errorf("nodes ready: %q, want %d", out, n)
		}
		return nil
	})
}

// nodeUIDs lists all nodes with their UIDs.
func (c *cluster) nodeUIDs() string {
	c.t.Helper()
	return c.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
}
