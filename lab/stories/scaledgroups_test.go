package stories

import (
	"context"
	"encoding/base64"
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
	labels, taints, tagged string // of the kubelet; and of the group's tags: KEY=VALUE, separated by commas
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

// wantDesired waits until groups have these sizes, in instances that serve and as desired: "cheap=1 dear=0".
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

// poolOfGroup is a NodeGroup with a NodePool whose nodes are removed as soon as they are not needed.
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

// podsOf is a Deployment whose pods request CPU.
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

// One decision over two Auto Scaling groups and a NodePool, by price: from zero to the cheapest that fits, beyond a
// group's maximum to the next, and to zero again.
func TestGroupsAndAPoolAreChosenByPrice(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--microvms=false", "--page", "")
	c.kubectl("delete", "nodepool", "--all")
	c.createScaledGroup(scaledGroup{name: "cheap", instanceType: "t3a.large", max: 1})
	c.createScaledGroup(scaledGroup{name: "dear", instanceType: "m5.2xlarge", max: 3})
	c.apply(poolOfGroup("cheap") + poolOfGroup("dear") + onDemandPool)
	c.eventually(30*time.Second, func() error {
		out := c.kubectl("get", "nodegroups", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.minSize} `+
			`{.status.maxSize} {.status.instanceTypes} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if want := "cheap  1 [\"t3a.large\"] True\ndear  3 [\"m5.2xlarge\"] True\n"; out != want {
			return fmt.Errorf("node groups:\n%s", out)
		}
		return nil
	})

	c.apply(podsOf("web", 1, "1500m")) // fits anywhere; t3a.large is the cheapest
	c.wantPods(time.Minute, "default", "web", 1)
	c.wantDesired(time.Minute, "cheap=1 dear=0")

	c.apply(podsOf("large", 1, "6500m")) // fits on m5.2xlarge alone
	c.wantPods(time.Minute, "default", "large", 1)
	c.wantDesired(time.Minute, "cheap=1 dear=1")

	c.apply(podsOf("web", 2, "1500m")) // the cheap group has its maximum: m5.large of the pool is the next
	c.wantPods(time.Minute, "default", "web", 2)
	c.wantDesired(time.Minute, "cheap=1 dear=1")
	if got := c.poolsOfClaims(); got != "cheap dear pool" {
		t.Errorf("NodeClaims of the pools %s", got)
	}

	c.kubectl("delete", "deployment", "web", "large")
	c.wantDesired(time.Minute, "cheap=0 dear=0")
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
