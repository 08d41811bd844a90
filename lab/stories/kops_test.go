package stories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
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

// An article about kops, command by command. Its t3.medium nodes take 17 pods each, 15 of which need an address. With
// more replicas than two such nodes take, pods stay Pending. The article continues with two nodes; here the pool's
// limit is lifted and a third is launched. With prefix delegation and maxPods 110 all nodes are replaced; the article
// lost pods in doing so.
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

	c.allocatable("17") // the node that CoreDNS got before is replaced
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p", `{"spec":{"limits":{"cpu":"4"}}}`)
	c.apply(kopsNginx)
	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=30")
	c.eventually(3*time.Minute, c.twoNodesAreFull)
	c.tooManyPodsEvent()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "json", "-p", `[{"op":"remove","path":"/spec/limits"}]`)
	c.wantPods(2*time.Minute, "default", "nginx", 30)
	c.allocatable("17")

	c.kubectl("set", "env", "daemonset", "aws-node", "-n", "kube-system", "ENABLE_PREFIX_DELEGATION=true")
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "WARM_PREFIX_TARGET=1")
	if err := matches(c.kubectl("describe", "daemonsets.apps", "-n", "kube-system", "aws-node"),
		`ENABLE_PREFIX_DELEGATION: +true`, `WARM_PREFIX_TARGET: +1`); err != nil {
		t.Error(err)
	}
	c.kubectl("rollout", "status", "-n", "kube-system", "daemonset", "aws-node", "--timeout=240s")
	c.kubectl("patch", "ec2nodeclass", "default", "--type", "merge", "-p", `{"spec":{"kubelet":{"maxPods":110}}}`)
	c.allocatable("110")
	c.eventually(time.Minute, func() error { // describe fails if a node goes after it was listed
		out, err := c.run("kubectl", "describe", "node")
		for _, part := range strings.Split(out, "Allocatable:")[1:] {
			err = cmp.Or(err, matches(part, `(?s)^\n.*?\n  pods: +110\n`))
		}
		return err
	})
	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=110")
	c.wantPods(2*time.Minute, "default", "nginx", 110)
	c.eventually(time.Minute, func() error {
		return matches(c.kubectl("get", "replicasets"), `nginx-deployment-\S+ +110 +110 +110 `)
	})
	c.eventually(time.Minute, c.podsOutsidePrefixes)
}

// twoNodesAreFull returns an error unless there are two nodes that run 17 pods each, 15 of them with addresses of
// their own.
func (c *cluster) twoNodesAreFull() error {
	nodes := c.nodes()
	if len(nodes) != 2 {
		return fmt.Errorf("%d nodes, want 2", len(nodes))
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		return err
	}
	for i := range nodes {
		all, own := 0, 0
		for k := range pods.Items {
			p := &pods.Items[k]
			if p.Spec.NodeName != nodes[i].Name || p.Status.Phase != corev1.PodRunning {
				continue
			}
			all++
			if !p.Spec.HostNetwork {
				own++
			}
		}
		if all != 17 || own != 15 {
			return fmt.Errorf("node %s runs %d pods, %d with an address of their own; want 17 and 15", nodes[i].Name, all, own)
		}
	}
	return nil
}

// tooManyPodsEvent checks that two pods are Pending, as many as kube-system has with addresses of their own, and that
// kube-scheduler says why, as the article shows. One of the two is created anew: kube-scheduler's event recorder counts
// a second attempt at the same revision of a pod as a repetition of the first, whose message it keeps, which may be of
// when the second node was not ready yet.
func (c *cluster) tooManyPodsEvent() {
	c.t.Helper()
	pending := func() []string {
		return strings.Fields(c.kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name"))
	}
	before := pending()
	if len(before) != 2 {
		c.t.Fatalf("%d pods are Pending, want 2: %v", len(before), before)
	}
	c.kubectl("delete", before[0])
	c.eventually(time.Minute, func() error {
		now := pending()
		i := slices.IndexFunc(now, func(pod string) bool { return !slices.Contains(before, pod) })
		if len(now) != 2 || i < 0 {
			return fmt.Errorf("pods Pending are %v, want %s and a new one", now, before[1])
		}
		_, events, _ := strings.Cut(c.kubectl("describe", now[i]), "Events:")
		return matches(events, `FailedScheduling .*default-scheduler +0/2 nodes are available: 2 Too many pods\. `+
			`no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod\.`)
	})
}

// sizesOfT3 queries EC2 for the network interfaces and addresses of the t3 types, and gets the article's table, in
// any row order.
func (c *cluster) sizesOfT3() {
	c.t.Helper()
	out := c.awsCLI("ec2", "describe-instance-types", "--filters", "Name=instance-type,Values=t3.*", "--query",
		"InstanceTypes[].{Type: InstanceType, MaxENI: NetworkInfo.MaximumNetworkInterfaces, "+
			"IPv4addr: NetworkInfo.Ipv4AddressesPerInterface}", "--output", "table")
	const want = `--------------------------------------
|        DescribeInstanceTypes       |
+----------+----------+--------------+
| IPv4addr | MaxENI   |    Type      |
+----------+----------+--------------+
|  15      |  4       |  t3.xlarge   |
|  15      |  4       |  t3.2xlarge  |
|  12      |  3       |  t3.large    |
|  2       |  2       |  t3.nano     |
|  6       |  3       |  t3.medium   |
|  2       |  2       |  t3.micro    |
|  4       |  3       |  t3.small    |
+----------+----------+--------------+
`
	lines := func(table string) []string { return slices.Sorted(strings.Lines(table)) }
	if !slices.Equal(lines(out), lines(want)) {
		c.t.Errorf("sizes of t3:\n%s\nwant, in any order:\n%s", out, want)
	}
}

// allocatable waits until there are nodes and all of them are t3.medium and take the given number of pods.
func (c *cluster) allocatable(pods string) {
	c.t.Helper()
	c.eventually(5*time.Minute, func() error {
		nodes := c.nodes()
		if len(nodes) == 0 {
			return errors.New("there is no node")
		}
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

// podsOutsidePrefixes returns an error naming pods of the Deployment whose addresses are in no prefix of a network
// interface.
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
