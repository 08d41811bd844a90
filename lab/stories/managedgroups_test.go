package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// A managed node group of the region's EKS creates nodes with its labels and taints, follows its Auto Scaling group,
// and drains a node before terminating it, respecting PodDisruptionBudgets.
func TestAManagedNodeGroupBringsNodesAndDrainsThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--addons=false", "--controller=false", "--microvms=false", "--page", "")
	c.start()
	ctx, groups := context.Background(), eks.NewFromConfig(c.aws)
	name := c.createGroup(ctx, groups, 3)
	c.wantGroupNodes(3)

	c.apply(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 4,
  selector: {matchLabels: {app: web}}}}`)
	c.apply(strings.NewReplacer("{karpenter.sh/nodepool: x}", "{tier: web}\n      tolerations: [{key: web, operator: Exists}]").
		Replace(deploymentIn("x", "web", 4, "900m")))
	c.wantPods(time.Minute, "default", "web", 4)

	// The budget allows no eviction: the node to be terminated stays, cordoned, and its pods keep running.
	scaling := autoscaling.NewFromConfig(c.aws)
	_, err := scaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: aws.Int32(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually(time.Minute, func() error {
		if out := c.kubectl("get", "nodes", "-l", "tier=web", "-o", "jsonpath={.items[*].spec.unschedulable}"); out != "true" {
			return fmt.Errorf("cordoned: %q, want one node", out)
		}
		return nil
	})
	c.wantPods(10*time.Second, "default", "web", 4)
	c.wantGroupNodes(3)

	c.kubectl("patch", "pdb", "web", "--type=merge", "-p", `{"spec":{"minAvailable":3}}`)
	c.wantGroupNodes(2)
	c.wantPods(time.Minute, "default", "web", 4)

	_, err = groups.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web")})
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl("delete", "pdb", "web")
	c.wantGroupNodes(0)
	c.eventually(time.Minute, func() error {
		out, err := groups.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("nodeless")})
		if err == nil && len(out.Nodegroups) > 0 {
			err = fmt.Errorf("node groups %v", out.Nodegroups)
		}
		return err
	})
}

// createGroup creates the node group web of m5.large and returns the name of its Auto Scaling group.
func (c *cluster) createGroup(ctx context.Context, groups *eks.Client, nodes int32) string {
	c.t.Helper()
	ids := c.subnets(ctx)
	made, err := groups.CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web"), Subnets: ids,
		NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"), InstanceTypes: []string{"m5.large"},
		ScalingConfig: &types.NodegroupScalingConfig{
			MinSize: aws.Int32(0), MaxSize: aws.Int32(4), DesiredSize: &nodes,
		},
		Labels: map[string]string{"tier": "web"},
		Taints: []types.Taint{{Key: aws.String("web"), Value: aws.String("only"), Effect: types.TaintEffectNoSchedule}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return *made.Nodegroup.Resources.AutoScalingGroups[0].Name
}

// wantGroupNodes waits until n nodes of the group web are ready, with the labels and the taint of their group, and no
// other taint but that of a cordoned node: until the node lifecycle controller has removed its own, no pod gets there.
func (c *cluster) wantGroupNodes(n int) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", "nodes", "-l", "tier=web", "-o", "jsonpath={range .items[*]}"+
			`{.metadata.labels.eks\.amazonaws\.com/nodegroup}/{.metadata.labels.eks\.amazonaws\.com/capacityType} `+
			`{.spec.taints[?(@.key=="web")].value} {.status.conditions[?(@.type=="Ready")].status} `+
			`{.spec.unschedulable}:{.spec.taints[?(@.key!="web")].key}{"\n"}{end}`)
		const good = "web/ON_DEMAND only True "
		all := strings.ReplaceAll(out, good+"true:node.kubernetes.io/unschedulable\n", good+":\n")
		if all != strings.Repeat(good+":\n", n) {
			return errors.New("nodes of the group: " + out)
		}
		return nil
	})
}

// subnets returns the IDs of the region's subnets.
func (c *cluster) subnets(ctx context.Context) []string {
	c.t.Helper()
	out, err := c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	var ids []string
	for _, s := range out.Subnets {
		ids = append(ids, *s.SubnetId)
	}
	return ids
}
