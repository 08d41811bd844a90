package stories

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
)

// m5Larges restricts the default pool to m5.large in two zones.
const m5Larges = `{"spec":{"disruption":{"consolidateAfter":"Never"},"template":{"spec":{"requirements":[
	{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m5.large"]},
	{"key":"topology.kubernetes.io/zone","operator":"In","values":["us-west-2a","us-west-2b"]},
	{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`

// Custom networking as set up in the EKS user guide. Pods get addresses from the subnet that the ENIConfig of their
// zone names, nodes take the pods of one interface less, and mistakes in an ENIConfig are reported before a node is
// launched. If the pods' subnet has no address left, no node is launched, and no pod is bound without getting an
// address. A warm target that no type can keep is reported on the pool.
func TestPodsOfACustomNetwork(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s")
	c.start()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p", m5Larges)
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	before := map[string]bool{}
	c.eventually(3*time.Minute, func() error {
		for _, n := range c.nodes() {
			before[n.Name] = true
		}
		if len(before) == 0 {
			return fmt.Errorf("no node")
		}
		return c.allTake("29")
	})
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true",
		"ENI_CONFIG_LABEL_DEF=topology.kubernetes.io/zone")
	c.wantCondition("nodepool", "general-purpose", "NodelessPodNetworkReady",
		`ENIConfig "us-west-2a", that of nodes in us-west-2a, does not exist; create it with spec.subnet`)
	without := c.watchAddresses("default")
	c.apply(strings.Replace(strings.Replace(kopsNginx, "replicas: 2", "replicas: 8", 1),
		"image: nginx,", "image: nginx, resources: {requests: {cpu: 1700m}},", 1)) // one node per pod
	c.eventually(time.Minute, func() error {
		pods := c.podsOf("default", "app=nginx")
		if len(pods) != 8 {
			return fmt.Errorf("%d pods, want 8", len(pods))
		}
		for _, p := range pods {
			if out := c.why("pod/" + p.Name); !strings.Contains(out, `ENIConfig "us-west-2a"`) {
				return fmt.Errorf("why does not say what the pod lacks:\n%s", out)
			}
		}
		return nil
	})

	a := c.createSubnet("us-west-2a", "10.200.0.0/26") // 59 addresses, 20 per node
	c.apply(eniConfig("us-west-2a", a) + eniConfig("us-west-2b", a))
	c.wantCondition("nodepool", "general-purpose", "NodelessPodNetworkReady", "instances take interfaces in their own zone only")
	c.eventually(3*time.Minute, func() error { return c.podsIn("10.200.0.0/26", before, 1, 2) })
	c.eventually(2*time.Minute, func() error {
		for _, p := range c.podsOf("default", "app=nginx") {
			if p.Spec.NodeName != "" {
				continue
			}
			if out := c.why("pod/" + p.Name); !strings.Contains(out, "addresses of its subnet (m5.large), and no subnet in us-west-2a") {
				return fmt.Errorf("why does not say what the pod lacks:\n%s", out)
			}
		}
		return nil
	})

	c.apply(eniConfig("us-west-2b", c.createSubnet("us-west-2b", "10.200.1.0/24")))
	c.wantPods(4*time.Minute, "default", "nginx", 8)
	if err := c.podsIn("10.200.0.0/23", before, 8, 8); err != nil {
		t.Error(err)
	}
	c.eventually(time.Minute, func() error {
		if out := c.kubectl("get", "nodepool", "general-purpose", "-o", "yaml"); strings.Contains(out, "NodelessPodNetworkReady") {
			return fmt.Errorf("the pool still says that ENIConfigs are wrong:\n%s", out)
		}
		return nil
	})
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "WARM_IP_TARGET=500")
	c.wantCondition("nodepool", "general-purpose", "NodelessWarmTargetsKept",
		"WARM_IP_TARGET=500 of DaemonSet kube-system/aws-node: none of 1 instance type that the NodePool allows can keep that; "+
			"m5.large, which holds most, can keep 18")
	if seen, late := without(); len(late) > 0 || seen < 8 {
		t.Errorf("of %d pods with a node %d waited for an address: %v", seen, len(late), late)
	}
}

func eniConfig(name, subnet string) string {
	return "---\napiVersion: crd.k8s.amazonaws.com/v1alpha1\nkind: ENIConfig\nmetadata: {name: " + name +
		"}\nspec: {subnet: " + subnet + "}\n"
}

func (c *cluster) createSubnet(zone, cidr string) string {
	c.t.Helper()
	vpcs, err := c.ec2.DescribeVpcs(context.Background(), &ec2.DescribeVpcsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := c.ec2.CreateSubnet(context.Background(), &ec2.CreateSubnetInput{
		VpcId: vpcs.Vpcs[0].VpcId, AvailabilityZone: &zone, CidrBlock: &cidr,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return *out.Subnet.SubnetId
}

// podsIn returns an error unless least to most pods run on new nodes that take 20 pods each, with addresses in a
// block that does not contain their nodes' addresses.
func (c *cluster) podsIn(block string, before map[string]bool, least, most int) error {
	cidr, running := netip.MustParsePrefix(block), 0
	for _, p := range c.podsOf("default", "app=nginx") {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		running++
		if ip := netip.MustParseAddr(p.Status.PodIP); !cidr.Contains(ip) || cidr.Contains(netip.MustParseAddr(p.Status.HostIP)) {
			return fmt.Errorf("pod %s has %s on a node with %s, want one of %s", p.Name, ip, p.Status.HostIP, cidr)
		}
	}
	nodes := c.nodes()
	for i := range nodes {
		if takes := nodes[i].Status.Allocatable.Pods().String(); !before[nodes[i].Name] && takes != "20" {
			return fmt.Errorf("node %s takes %s pods, want 20", nodes[i].Name, takes)
		}
	}
	if running < least || running > most {
		return fmt.Errorf("%d pods run on %d nodes, want %d to %d", running, len(nodes), least, most)
	}
	return nil
}

// isolated is a NodeClass of EKS Auto Mode whose pods are in subnets of their own, and its pool.
const isolated = `
apiVersion: eks.amazonaws.com/v1
kind: NodeClass
metadata: {name: isolated}
spec:
  role: nodeless-node
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  podSubnetSelectorTerms: [%s]
  podSecurityGroupSelectorTerms: [{tags: {aws:eks:cluster-name: nodeless}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: isolated}
spec:
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: isolated}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

// In EKS Auto Mode a NodeClass takes the place of ENIConfigs: its pods get addresses of the subnets that it selects for
// them, and no node is launched in a zone without such a subnet, or whose pods would find no address there.
func TestPodsOfANodeClasssPodSubnets(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--auto-mode", "--boot-time", "1s")
	c.start()
	a := c.createSubnet("us-west-2a", "10.200.0.0/26") // 59 addresses, of which a node with a pod takes 33
	c.apply(fmt.Sprintf(isolated, "{id: "+a+"}"))
	c.wantCondition("nodepool", "isolated", "NodelessPodNetworkReady",
		`spec.podSubnetSelectorTerms of NodeClass "isolated" selects no subnet in us-west-2b`)
	without := c.watchAddresses("default")
	c.apply(strings.NewReplacer("replicas: 2", "replicas: 3",
		"spec: {term", "spec: {nodeSelector: {karpenter.sh/nodepool: isolated}, term",
		"image: nginx,", "image: nginx, resources: {requests: {cpu: 1500m}},").Replace(kopsNginx)) // one node per pod
	c.eventually(3*time.Minute, func() error { return c.podsApart("10.200.0.0/23", 1) })
	c.apply(fmt.Sprintf(isolated, "{id: "+a+"}, {id: "+c.createSubnet("us-west-2b", "10.200.1.0/24")+"}"))
	c.wantPods(4*time.Minute, "default", "nginx", 3)
	c.eventually(time.Minute, func() error { return c.podsApart("10.200.0.0/23", 3) })
	if seen, late := without(); len(late) > 0 || seen < 3 {
		t.Errorf("of %d pods with a node %d waited for an address: %v", seen, len(late), late)
	}
}

// podsApart returns an error unless as many pods run, with addresses in a block that does not contain their nodes'.
func (c *cluster) podsApart(block string, want int) error {
	cidr, running := netip.MustParsePrefix(block), 0
	for _, p := range c.podsOf("default", "app=nginx") {
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		running++
		ip, host := netip.MustParseAddr(p.Status.PodIP), netip.MustParseAddr(p.Status.HostIP)
		if !cidr.Contains(ip) || cidr.Contains(host) {
			return fmt.Errorf("pod %s has %s on a node with %s, want one of %s", p.Name, ip, host, cidr)
		}
	}
	if running != want {
		return fmt.Errorf("%d pods run, want %d", running, want)
	}
	return nil
}
