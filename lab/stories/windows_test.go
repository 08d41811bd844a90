package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// windowsPool is a pool of Windows nodes beside Linux nodes, as in the EKS user guide: their pods select Windows, and
// a taint keeps off pods that do not tolerate it ("Deploy Windows nodes on EKS clusters").
const windowsPool = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: windows}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: windows2022@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: windows}
spec:
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: windows}
      taints: [{key: os, value: windows, effect: NoSchedule}]
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6g.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: iis}
spec:
  replicas: 12
  selector: {matchLabels: {app: iis}}
  template:
    metadata: {labels: {app: iis}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      tolerations: [{key: os, value: windows}]
      containers: [{name: iis, image: mcr.microsoft.com/windows/servercore/iis, resources: {requests: {cpu: 10m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: arm}
spec:
  nodeSelector: {kubernetes.io/os: windows, kubernetes.io/arch: arm64}
  tolerations: [{key: os, value: windows}]
  containers: [{name: iis, image: mcr.microsoft.com/windows/servercore/iis}]
`

// Windows nodes beside Linux nodes. Until the VPC CNI provides addresses for Windows pods none is launched, and the
// pool and why say what to set. Then there are as many nodes as the pods' addresses need, with their labels and
// without Linux DaemonSets.
func TestWindowsNodesBesideLinux(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s")
	c.start()
	if out, err := c.runIn(strings.Replace(windowsPool, "windows2022@latest", "windows2022@v1", 1), "kubectl", "apply",
		"-f", "-"); err == nil || !strings.Contains(out, "windows families may only specify version 'latest'") {
		t.Errorf("a class of a version of Windows: %v %s", err, out)
	}
	c.kubectl("delete", "deployment/iis", "pod/arm", "nodepool/windows", "--ignore-not-found")
	c.apply(windowsPool)
	c.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
	c.wantPods(2*time.Minute, "default", "web", 3)
	const enable = `kubectl patch configmap amazon-vpc-cni -n kube-system --type merge -p '{"data":{"enable-windows-ipam":"true"}}'`
	c.wantCondition("nodepool", "windows", "NodelessPodNetworkReady", enable)
	c.eventually(time.Minute, func() error {
		if out := c.why("deployment/iis"); !strings.Contains(out, enable) {
			return fmt.Errorf("why does not say what helps:\n%s", out)
		}
		return nil
	})
	if n := len(c.onWindows()); n > 0 {
		t.Errorf("%d nodes of Windows were launched for pods that would get no address", n)
	}

	c.kubectl("patch", "configmap", "amazon-vpc-cni", "-n", "kube-system", "--type", "merge", "-p",
		`{"data":{"enable-windows-ipam":"true"}}`)
	c.eventually(time.Minute, func() error { // the webhook learns of it asynchronously
		out := c.kubectl("run", "probe", "--image=iis", "--dry-run=server", "-o", "yaml", "--overrides",
			`{"spec":{"nodeSelector":{"kubernetes.io/os":"windows"}}}`)
		if !strings.Contains(out, "vpc.amazonaws.com/PrivateIPv4Address") {
			return fmt.Errorf("a pod asks for no address:\n%s", out)
		}
		return nil
	})
	c.eventually(time.Minute, func() error {
		c.kubectl("delete", "pods", "-l", "app=iis", "--now")
		var pods []corev1.Pod
		c.eventually(time.Minute, func() error {
			if pods = c.podsOf("default", "app=iis"); len(pods) < 12 {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
		for _, p := range pods {
			if q := p.Spec.Containers[0].Resources.Limits["vpc.amazonaws.com/PrivateIPv4Address"]; q.Value() != 1 {
				return fmt.Errorf("pod %s asks for %s addresses", p.Name, &q)
			}
		}
		return nil
	})
	c.wantPods(4*time.Minute, "default", "iis", 12)
	nodes := c.onWindows()
	if len(nodes) != 2 { // m5.large has addresses for nine
		t.Errorf("%d nodes of Windows for 12 pods, want 2", len(nodes))
	}
	for name, n := range nodes {
		offered := n.Status.Allocatable["vpc.amazonaws.com/PrivateIPv4Address"]
		if n.Labels[corev1.LabelWindowsBuild] != "10.0.20348" || n.Labels[corev1.LabelInstanceTypeStable] != "m5.large" ||
			n.Status.NodeInfo.OperatingSystem != "windows" || n.Status.Allocatable.Pods().Value() != 110 || offered.Value() != 9 {
			t.Errorf("node %s: labels %v, status %+v", name, n.Labels, n.Status)
		}
	}
	c.eachOnItsOwnSystem(nodes)
	if a := c.whyJSON("pod/arm"); a.Verdict != "Unschedulable" || !strings.Contains(c.why("pod/arm"), "arm64") {
		t.Errorf("why does not say that there is no Windows for arm64: %+v", a)
	}
	instances, err := c.instances()
	windows := 0
	for _, i := range instances {
		if i.Platform == "windows" {
			windows++
		}
	}
	if err != nil || windows != len(nodes) {
		t.Errorf("EC2 has %d instances of Windows, %v; want %d", windows, err, len(nodes))
	}
}

// onWindows returns the Windows nodes, by name.
func (c *cluster) onWindows() map[string]corev1.Node {
	c.t.Helper()
	out := map[string]corev1.Node{}
	for _, n := range c.nodes() {
		if n.Labels[corev1.LabelOSStable] == "windows" {
			out[n.Name] = n
		}
	}
	return out
}

// eachOnItsOwnSystem checks that pods of iis, and no others, are on Windows nodes.
func (c *cluster) eachOnItsOwnSystem(windows map[string]corev1.Node) {
	c.t.Helper()
	for _, of := range [][2]string{
		{"default", "app=iis"},
		{"default", "app=web"},
		{"kube-system", "k8s-app=aws-node"},
		{"kube-system", "k8s-app=kube-proxy"},
		{"kube-system", "k8s-app=kube-dns"},
	} {
		pods := c.podsOf(of[0], of[1])
		if len(pods) == 0 {
			c.t.Errorf("no pods %s", of[1])
		}
		for _, p := range pods {
			if _, there := windows[p.Spec.NodeName]; there != (of[1] == "app=iis") {
				c.t.Errorf("pod %s is on %s, Windows: %v", p.Name, p.Spec.NodeName, there)
			}
		}
	}
}
