package stories

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

// placed is a node class whose instances are in a placement group, its pool in one zone, and pods that need a node
// each.
const placed = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %[1]s}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  placementGroupSelector: {name: %[1]s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 1500m}}}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: %[3]s, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %[1]s}}}
`

// Pods are spread over the partitions of a placement group like over zones. A group with the spread strategy holds
// seven nodes per zone: the eighth pod waits, and pools of other node classes still launch nodes there.
func TestNodesInPlacementGroups(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	c.apply(fmt.Sprintf(placed, "parts", 6, ec2v1.LabelPlacementGroupPartition))
	c.wantCondition("ec2nodeclass", "parts", "PlacementGroupReady", `Placement group "parts" not found; create it in us-west-2`)
	id := c.createPlacementGroup("parts", ec2types.PlacementStrategyPartition, 3)
	c.createPlacementGroup("apart", ec2types.PlacementStrategySpread, 0)
	c.apply(fmt.Sprintf(placed, "apart", 8, "kubernetes.io/hostname"))
	c.wantPods(3*time.Minute, "default", "parts", 6)
	c.eventually(time.Minute, func() error { return c.partitionsHaveTwoNodes(id) })

	c.eventually(2*time.Minute, func() error {
		if n := c.phases("default", "apart"); n["Running"] != 7 || n["Pending"] != 1 {
			return fmt.Errorf("pods %v, want seven that run and one that waits", n)
		}
		return nil
	})
	c.wantEvents("reason=InsufficientCapacityError", "reached the limit of instances in this spread placement group")
	c.kubectl("scale", "deployment", "parts", "--replicas=9")
	c.wantPods(2*time.Minute, "default", "parts", 9)
	if n := c.phases("default", "apart"); n["Running"] != 7 {
		t.Errorf("pods %v of the full group", n)
	}
}

func (c *cluster) createPlacementGroup(name string, strategy ec2types.PlacementStrategy, partitions int32) string {
	c.t.Helper()
	in := &ec2.CreatePlacementGroupInput{GroupName: &name, Strategy: strategy}
	if partitions > 0 {
		in.PartitionCount = &partitions
	}
	out, err := c.ec2.CreatePlacementGroup(context.Background(), in)
	if err != nil {
		c.t.Fatal(err)
	}
	return *out.PlacementGroup.GroupId
}

// partitionsHaveTwoNodes returns an error unless three partitions have two instances each and their Nodes have the
// matching labels.
func (c *cluster) partitionsHaveTwoNodes(group string) error {
	out, err := c.ec2.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("placement-group-name"), Values: []string{"parts"}},
	}})
	if err != nil {
		return err
	}
	inEC2, ofNodes := map[string]int{}, map[string]int{}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			inEC2[fmt.Sprint(*i.Placement.GroupId, " ", aws.ToInt32(i.Placement.PartitionNumber))]++
		}
	}
	for _, n := range c.nodes() {
		if partition := n.Labels[ec2v1.LabelPlacementGroupPartition]; partition != "" {
			ofNodes[n.Labels[ec2v1.LabelPlacementGroupID]+" "+partition]++
		}
	}
	want := fmt.Sprint(map[string]int{group + " 1": 2, group + " 2": 2, group + " 3": 2})
	if fmt.Sprint(inEC2) != want || fmt.Sprint(ofNodes) != want {
		return fmt.Errorf("EC2 has instances %v, Nodes say %v; want %s", inEC2, ofNodes, want)
	}
	return nil
}
