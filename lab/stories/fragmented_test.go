package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
)

// inTwoSubnets is a node class that launches in two subnets, its pool, and a pod that needs a node of it.
const inTwoSubnets = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %[1]s}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: %[2]s}, {id: %[3]s}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
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
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  nodeSelector: {karpenter.sh/nodepool: %[1]s}
  containers: [{name: app, image: nginx, resources: {requests: {cpu: 1500m}}}]
`

// Pods get prefixes, and the free addresses of a subnet are in no free /28 block: a node is launched in the other zone,
// whose subnet has blocks. Once neither has one, a pod waits, and why names the subnet; when its addresses are given
// back, the pod gets a node there. No pod is bound without getting an address.
func TestNodesAvoidFragmentedSubnets(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s")
	c.start()
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "ENABLE_PREFIX_DELEGATION=true", "WARM_PREFIX_TARGET=1")
	a, b := c.createSubnet("us-west-2a", "10.200.0.0/24"), c.createSubnet("us-west-2b", "10.201.0.0/24")
	without := c.watchAddresses("default")
	taken := c.scatter(a)
	c.apply(fmt.Sprintf(inTwoSubnets, "first", a, b))
	c.wantPods(3*time.Minute, "default", "first", 1)
	node := c.podsOf("default", "app=first")[0].Spec.NodeName
	if zone := c.zoneOf(node); zone != "us-west-2b" {
		t.Errorf("the first pod runs in %s", zone)
	}
	c.eventually(time.Minute, func() error { // decisions are recorded some seconds after they are made
		if out := c.why("node/" + node); !strings.Contains(out, "subnet "+a+" in us-west-2a has ") ||
			!strings.Contains(out, "free addresses but no free /28 block") {
			return fmt.Errorf("why does not say which subnet was avoided:\n%s", out)
		}
		return nil
	})

	c.scatter(b)
	c.apply(fmt.Sprintf(inTwoSubnets, "second", a, b))
	c.eventually(time.Minute, func() error {
		if out := c.why("pod/second"); !strings.Contains(out, "a node of pool second needs at least 33 addresses") ||
			!strings.Contains(out, "free addresses but no free /28 block") {
			return fmt.Errorf("why does not say that the subnets are fragmented:\n%s", out)
		}
		return nil
	})
	if p := c.podsOf("default", "app=second")[0]; p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" {
		t.Errorf("the second pod is %s on node %q", p.Status.Phase, p.Spec.NodeName)
	}
	for _, id := range taken {
		if _, err := c.ec2.DeleteNetworkInterface(t.Context(),
			&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id}); err != nil {
			t.Fatal(err)
		}
	}
	c.wantPods(4*time.Minute, "default", "second", 1)
	if zone := c.zoneOf(c.podsOf("default", "app=second")[0].Spec.NodeName); zone != "us-west-2a" {
		t.Errorf("the second pod runs in %s", zone)
	}
	if seen, late := without(); len(late) > 0 || seen < 2 {
		t.Errorf("of %d pods with a node %d waited for an address: %v", seen, len(late), late)
	}
}

// zoneOf returns the zone of a node.
func (c *cluster) zoneOf(node string) string {
	c.t.Helper()
	return c.kubectl("get", "node", node, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
}

// scatter creates interfaces with single addresses in a subnet until it has no free /28 block, and returns their IDs.
func (c *cluster) scatter(subnet string) (ids []string) {
	c.t.Helper()
	create := func(q ec2.CreateNetworkInterfaceInput) (string, error) {
		q.SubnetId = &subnet
		out, err := c.ec2.CreateNetworkInterface(context.Background(), &q)
		if err != nil {
			return "", err
		}
		return *out.NetworkInterface.NetworkInterfaceId, nil
	}
	for {
		id, err := create(ec2.CreateNetworkInterfaceInput{Ipv4PrefixCount: aws.Int32(1)})
		if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "InsufficientCidrBlocks" {
			return ids
		}
		if err == nil {
			_, err = c.ec2.DeleteNetworkInterface(context.Background(),
				&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
		}
		if err == nil {
			id, err = create(ec2.CreateNetworkInterfaceInput{SecondaryPrivateIpAddressCount: aws.Int32(9)})
			ids = append(ids, id)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}
