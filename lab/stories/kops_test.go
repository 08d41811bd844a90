package stories

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// kopsNginx is the Deployment that an article about kops scales until its nodes take no more pods.
const kopsNginx = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx-deployment}
spec:
  replicas: 2
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: nginx, image: nginx, ports: [{containerPort: 80}]}]}
`

// An article about kops, whose nodes of t3.medium take 17 pods each. With more replicas than that pods stay Pending
// there, and get nodes here. With prefix delegation and maxPods 110 all nodes are replaced; in the article, pods were
// lost in doing so.
func TestTheKopsArticle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--region", "ap-northeast-2", "--boot-time", "1s")
	c.start()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p",
		`{"spec":{"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":["t3.medium"]},
		{"key":"topology.kubernetes.io/zone","operator":"In","values":["ap-northeast-2a","ap-northeast-2c"]},
		{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`)
	c.sizesOfT3()

	c.apply(kopsNginx)
	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=30")
	c.wantPods(2*time.Minute, "default", "nginx", 30)
	c.allocatable("17")

	c.kubectl("set", "env", "daemonset", "aws-node", "-n", "kube-system", "ENABLE_PREFIX_DELEGATION=true")
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "WARM_PREFIX_TARGET=1")
	if err := matches(c.kubectl("describe", "daemonsets.apps", "-n", "kube-system", "aws-node"),
		`ENABLE_PREFIX_DELEGATION: +true`, `WARM_PREFIX_TARGET: +1`); err != nil {
		t.Error(err)
	}
	c.kubectl("rollout", "status", "-n", "kube-system", "daemonset", "aws-node", "--timeout=120s")
	c.kubectl("patch", "ec2nodeclass", "default", "--type", "merge", "-p", `{"spec":{"kubelet":{"maxPods":110}}}`)
	c.allocatable("110")
	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=110")
	c.wantPods(2*time.Minute, "default", "nginx", 110)
	c.eventually(time.Minute, c.podsOutsidePrefixes)
}

// sizesOfT3 asks EC2 for the network interfaces of the types t3 and their addresses, as the article does.
func (c *cluster) sizesOfT3() {
	c.t.Helper()
	out, err := c.ec2.DescribeInstanceTypes(context.Background(), &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-type"), Values: []string{"t3.*"}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	got := map[string]string{}
	for _, t := range out.InstanceTypes {
		got[string(t.InstanceType)] = fmt.Sprint(*t.NetworkInfo.Ipv4AddressesPerInterface, " ",
			*t.NetworkInfo.MaximumNetworkInterfaces)
	}
	want := map[string]string{
		"t3.xlarge": "15 4", "t3.2xlarge": "15 4", "t3.large": "12 3", "t3.nano": "2 2", "t3.medium": "6 3",
		"t3.micro": "2 2", "t3.small": "4 3",
	}
	if !maps.Equal(got, want) {
		c.t.Errorf("addresses and interfaces of t3: %v, want %v", got, want)
	}
}

// allocatable waits until all nodes are t3.medium and take so many pods.
func (c *cluster) allocatable(pods string) {
	c.t.Helper()
	c.eventually(5*time.Minute, func() error {
		nodes := c.nodes()
		for i := range nodes {
			n := &nodes[i]
			of, takes := n.Labels["node.kubernetes.io/instance-type"], n.Status.Allocatable.Pods().String()
			if of != "t3.medium" || takes != pods {
				return fmt.Errorf("node %s is %s and takes %s pods, want t3.medium and %s", n.Name, of, takes, pods)
			}
		}
		return nil
	})
}

// podsOutsidePrefixes names pods of the Deployment whose addresses are in no prefix of a network interface.
func (c *cluster) podsOutsidePrefixes() error {
	found, err := c.ec2.DescribeNetworkInterfaces(context.Background(), &ec2.DescribeNetworkInterfacesInput{})
	if err != nil {
		return err
	}
	var prefixes []netip.Prefix
	for _, e := range found.NetworkInterfaces {
		for _, p := range e.Ipv4Prefixes {
			prefix, err := netip.ParsePrefix(*p.Ipv4Prefix)
			if err != nil || prefix.Bits() != 28 {
				return fmt.Errorf("prefix %s of %s: %w", *p.Ipv4Prefix, *e.NetworkInterfaceId, err)
			}
			prefixes = append(prefixes, prefix)
		}
	}
	ips := c.kubectl("get", "pods", "-l", "app=nginx", "-o", "jsonpath={.items[*].status.podIP}")
	for _, text := range strings.Fields(ips) {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return fmt.Errorf("the pod's address %s is in none of the prefixes %v", ip, prefixes)
		}
	}
	return nil
}
