package stories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// crowded is a pool whose node class allows more pods on a node than EKS has IP addresses for.
const crowded = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: crowded}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  kubelet: {maxPods: 110}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: crowded}
spec:
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: crowded}
      taints: [{key: crowded, effect: NoSchedule}]
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 30
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: crowded}
      tolerations: [{key: crowded}]
      containers: [{name: c, image: nginx}]
`

// A laptop cluster resembles EKS: aws-node and kube-proxy run on every node, CoreDNS on one, and a node has as many
// pod addresses as on EKS. The demo's pods all run beside the other DaemonSets of a production cluster, and why says
// how much of a node the DaemonSets request.
func TestAClusterHasEKSsAddons(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--demo", "--cluster-addons", "--boot-time", "1s")
	c.start()
	c.wantPods(3*time.Minute, "default", "inflate", 100)
	c.eventually(time.Minute, c.everyNodeHasDaemons)
	c.addonObjects()
	c.eventually(time.Minute, c.whyTellsOverhead) // consolidation is removing nodes meanwhile

	c.kubectl("delete", "deployment", "inflate")
	c.wantPods(time.Minute, "default", "inflate", 0)
	c.eventually(3*time.Minute, c.onlyCoreDNSsNode)
	c.kubectl("create", "deployment", "x", "--image=nginx", "--replicas=29")
	c.wantPods(2*time.Minute, "default", "x", 29)
	c.tooManyPods()

	c.kubectl("-n", "kube-system", "scale", "deployment", "coredns", "--replicas=3")
	c.stop(syscall.SIGTERM)
	c.start()
	if out := c.log(); strings.Count(out, "kept as they were") != 3 { // the pool, the add-ons and the cluster's add-ons
		t.Errorf("a restart does not keep what is there:\n%s", out)
	}
	c.eventually(2*time.Minute, func() error {
		var dns appsv1.Deployment
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, &dns); err != nil {
			return err
		}
		if *dns.Spec.Replicas != 3 || dns.Status.ReadyReplicas != 3 {
			return fmt.Errorf("coredns has %d replicas, %d ready; want the 3 that were asked for", *dns.Spec.Replicas,
				dns.Status.ReadyReplicas)
		}
		return nil
	})
}

// everyNodeHasDaemons returns an error if a node lacks a pod of one of the DaemonSets, or if a pod's address
// contradicts its hostNetwork setting.
func (c *cluster) everyNodeHasDaemons() error {
	for _, n := range c.nodes() {
		want := []string{"aws-node", "ebs-csi-node", "fluent-bit", "kube-proxy", "node-exporter"}
		var pods corev1.PodList
		if err := c.List(context.Background(), &pods); err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName != n.Name || p.Status.Phase != corev1.PodRunning {
				continue
			}
			if own := p.Status.PodIP != n.Status.Addresses[0].Address; own == p.Spec.HostNetwork {
				return fmt.Errorf("pod %s has the address %s, hostNetwork is %t", p.Name, p.Status.PodIP, p.Spec.HostNetwork)
			}
			for _, owner := range p.OwnerReferences {
				want = slices.DeleteFunc(want, func(name string) bool { return owner.Kind == "DaemonSet" && owner.Name == name })
			}
		}
		if len(want) > 0 {
			return fmt.Errorf("node %s has no running pod of %v", n.Name, want)
		}
	}
	return nil
}

// whyTellsOverhead returns an error if, for some node, why does not say what the DaemonSets request.
func (c *cluster) whyTellsOverhead() error {
	const want = "DaemonSets aws-node, ebs-csi-node, fluent-bit, kube-proxy, node-exporter request cpu 792m, memory 420Mi; of the node: cpu "
	for _, n := range c.nodes() {
		out, err := c.run("why", "node/"+n.Name)
		if err != nil || !strings.HasPrefix(fact(out, "overhead"), want) {
			return fmt.Errorf("why does not say %q: %v\n%s", want, err, out)
		}
	}
	return nil
}

// addonObjects checks the add-on objects that users of EKS rely on.
func (c *cluster) addonObjects() {
	c.t.Helper()
	c.kubectl("-n", "kube-system", "get", "configmap", "amazon-vpc-cni", "kube-proxy", "kube-proxy-config", "coredns")
	if ip := c.kubectl("-n", "kube-system", "get", "service", "kube-dns", "-o",
		"jsonpath={.spec.clusterIP}"); ip != "10.96.0.10" {
		c.t.Errorf("kube-dns is at %s", ip)
	}
	var budget policyv1.PodDisruptionBudget
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"},
		&budget); err != nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
		c.t.Errorf("the budget of coredns: %v %+v", err, budget.Spec)
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("kube-system")); err != nil {
		c.t.Fatal(err)
	}
	asks, priority := map[string]string{}, map[string]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		name, cpu, memory := p.Labels["k8s-app"], int64(0), int64(0)
		for _, container := range p.Spec.Containers {
			cpu += container.Resources.Requests.Cpu().MilliValue()
			memory += container.Resources.Requests.Memory().Value() >> 20
		}
		asks[name], priority[name] = fmt.Sprintf("%dm %dMi", cpu, memory), p.Spec.PriorityClassName
	}
	for name, want := range map[string][2]string{
		"aws-node": {"50m 0Mi", "system-node-critical"}, "kube-proxy": {"100m 0Mi", "system-node-critical"},
		"kube-dns": {"100m 70Mi", "system-cluster-critical"},
	} {
		if got := [2]string{asks[name], priority[name]}; got != want {
			c.t.Errorf("%s asks for %v, want %v", name, got, want)
		}
	}
}

// onlyCoreDNSsNode returns an error unless the cluster has one node, which runs both CoreDNS pods.
func (c *cluster) onlyCoreDNSsNode() error {
	instances, err := c.instances()
	if err != nil {
		return err
	}
	nodes := c.nodes()
	if n, m, i := len(nodes), len(c.claims()), len(instances); n != 1 || m != 1 || i != 1 {
		return fmt.Errorf("%d nodes, %d claims, %d instances; want the one of CoreDNS", n, m, i)
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("kube-system"),
		client.MatchingLabels{"k8s-app": "kube-dns"}); err != nil {
		return err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != nodes[0].Name || p.Status.Phase != corev1.PodRunning ||
			p.Spec.HostNetwork {
			return fmt.Errorf("pod %s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
	return nil
}

// tooManyPods puts more pods on a node than it has addresses for: 30 on one m5.large, beside ebs-csi-node.
func (c *cluster) tooManyPods() {
	c.t.Helper()
	c.apply(crowded)
	var waits *corev1.Pod
	c.eventually(2*time.Minute, func() error {
		var pods corev1.PodList
		if err := c.List(context.Background(), &pods); err != nil {
			return err
		}
		running := map[string]int{} // pods with an address of their own, by node
		waits = nil
		for i := range pods.Items {
			switch p := &pods.Items[i]; {
			case p.Status.Phase == corev1.PodRunning && !p.Spec.HostNetwork:
				running[p.Spec.NodeName]++
			case p.Labels["app"] == "many" && len(p.Status.ContainerStatuses) == 1 &&
				p.Status.ContainerStatuses[0].State.Waiting != nil &&
				p.Status.ContainerStatuses[0].State.Waiting.Reason == "ContainerCreating":
				waits = p
			}
		}
		if waits == nil || running[waits.Spec.NodeName] != 27 {
			return fmt.Errorf("pods with an address of their own by node: %v; want 27 on a node where others are being created", running)
		}
		return nil
	})
	c.wantEvents("involvedObject.name="+waits.Name,
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`)
	out := c.why("pod/" + waits.Name)
	for label, want := range map[string]string{
		"addresses":      "m5.large has 3 network interfaces with 9 pod addresses each, 27 in all; 27 in use",
		"kubelet allows": "110 pods; 4 use the host network and need no address",
		"what helps":     "set spec.kubelet.maxPods of EC2NodeClass crowded to at most 29 (27 addresses and 2 pods on the host network), or remove it; existing nodes drift and are replaced",
	} {
		if got := fact(out, label); got != want {
			c.t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
	if !strings.Contains(out, "cannot start: the node has no IP address left for it") {
		c.t.Errorf("why does not say what the pod lacks:\n%s", out)
	}
	if out := c.why("deployment/many"); !strings.Contains(out, " on nodes that have no IP address for them") {
		c.t.Errorf("why does not say what the Deployment's pods lack:\n%s", out)
	}
	c.kubectl("patch", "ec2nodeclass", "crowded", "--type=merge", "-p", `{"spec":{"kubelet":{"maxPods":29}}}`)
	c.wantPods(4*time.Minute, "default", "many", 30)
}
