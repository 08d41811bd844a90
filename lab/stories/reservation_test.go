package stories

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const reservedPool = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: reserved}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  capacityReservationSelectorTerms: [{tags: {team: shop}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: reserved}
spec:
  template:
    metadata: {labels: {team: default}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: reserved}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s}
`

// topShowsTwoReserved returns an error unless top shows two nodes of reserved capacity.
func (c *cluster) topShowsTwoReserved() error {
	out, err := c.run("top", "-o", "json")
	var seen clusterView
	if err = cmp.Or(err, json.Unmarshal([]byte(out), &seen)); err != nil {
		return err
	}
	reserved := 0
	for _, n := range seen.Nodes {
		if n.CapacityType == "reserved" {
			reserved++
		}
	}
	if reserved != 2 {
		return fmt.Errorf("%d nodes are reserved, want 2:\n%s", reserved, out)
	}
	return nil
}

// A team has paid for two instances in advance: pods get these first, then others. Released capacity is used by the
// next pods.
func TestReservedCapacityIsUsedFirst(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	id := c.reserve("m5.xlarge", "us-west-2b", 2)
	c.apply(reservedPool)
	c.apply(deployment("default", "web", 3, "2500m", "terminationGracePeriodSeconds: 1", ""))
	c.wantPods(2*time.Minute, "default", "web", 3)
	// 2500m of the 3920m of an m5.xlarge: one pod each
	c.wantReserved(id, 0, "2 reserved")
	nodes := c.kubectl("get", "nodes", "-l", "karpenter.k8s.aws/capacity-reservation-id="+id,
		"-o", `jsonpath={range .items[*]}{.metadata.labels.karpenter\.k8s\.aws/capacity-reservation-type},{end}`)
	if nodes != "default,default," {
		t.Errorf("the two nodes of the reservation do not say so:\n%s", nodes)
	}
	c.eventually(time.Minute, c.topShowsTwoReserved)
	c.kubectl("scale", "deployment/web", "--replicas=0")
	c.wantReserved(id, 2, "0 reserved")
	c.kubectl("scale", "deployment/web", "--replicas=1")
	c.wantPods(2*time.Minute, "default", "web", 1)
	c.wantReserved(id, 1, "1 reserved")
}

// reserve creates a capacity reservation of the team shop.
func (c *cluster) reserve(instanceType, zone string, count int32) string {
	c.t.Helper()
	out, err := c.ec2.CreateCapacityReservation(context.Background(), &ec2.CreateCapacityReservationInput{
		InstanceType: awssdk.String(instanceType), AvailabilityZone: awssdk.String(zone), InstanceCount: &count,
		InstancePlatform:      ec2types.CapacityReservationInstancePlatformLinuxUnix,
		InstanceMatchCriteria: ec2types.InstanceMatchCriteriaTargeted,
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeCapacityReservation,
			Tags:         []ec2types.Tag{{Key: awssdk.String("team"), Value: awssdk.String("shop")}},
		}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return *out.CapacityReservation.CapacityReservationId
}

// wantReserved waits until a reservation has the given number of free instances, and the cluster that of reserved
// nodes.
func (c *cluster) wantReserved(id string, free int32, nodes string) {
	c.t.Helper()
	c.eventually(2*time.Minute, func() error {
		out, err := c.ec2.DescribeCapacityReservations(context.Background(),
			&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}})
		if err != nil {
			return err
		}
		have := strings.Fields(c.kubectl("get", "nodes", "-l", "karpenter.sh/capacity-type=reserved", "-o", "name"))
		left := awssdk.ToInt32(out.CapacityReservations[0].AvailableInstanceCount)
		if got := fmt.Sprintf("%d reserved", len(have)); left != free || got != nodes {
			return fmt.Errorf("%d free, want %d; %s nodes, want %s", left, free, got, nodes)
		}
		return nil
	})
}
