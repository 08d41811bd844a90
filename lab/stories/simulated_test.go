package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Manifests of other image families: Bottlerocket's nodes join like AL2023's, Amazon Linux 2's class says what to
// write instead, and an instance whose user data names no cluster is reported on its NodeClaim.
const families = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: NAME}
spec:
  role: nodeless-node
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  IMAGES
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    metadata: {labels: {family: NAME}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: NAME}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      taints: [{key: family, value: NAME, effect: NoSchedule}]
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  nodeSelector: {family: NAME, kubernetes.io/arch: amd64}
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: nginx}]
---
`

// checkFamilies applies them to a cluster and checks what becomes of their nodes.
func (c *cluster) checkFamilies() {
	c.t.Helper()
	for name, images := range map[string]string{
		"bottlerocket": "amiSelectorTerms: [{alias: bottlerocket@latest}]",
		"al2":          "amiFamily: AL2\n  amiSelectorTerms: [{alias: al2@latest}]",
		"lost":         "amiFamily: Custom\n  userData: |\n    #!/bin/bash\n    /etc/eks/bootstrap.sh nodeless\n  amiSelectorTerms: [{name: 'amazon-eks-node-al2023-x86_64-standard-1.36-*'}]",
	} {
		c.apply(strings.NewReplacer("NAME", name, "IMAGES", images).Replace(families))
	}
	c.wantPods(time.Minute, "default", "bottlerocket", 1)
	c.eventually(time.Minute, func() error {
		got := c.kubectl("get", "nodes", "-l", "karpenter.sh/nodepool=bottlerocket,karpenter.sh/registered=true", "-o",
			"jsonpath={.items[*].status.nodeInfo.osImage}")
		if got != "Bottlerocket OS (simulated)" {
			return fmt.Errorf("the node of Bottlerocket has the system %q", got)
		}
		return nil
	})
	c.eventually(time.Minute, func() error {
		got := c.kubectl("get", "ec2nodeclass", "al2", "-o",
			"jsonpath={.status.conditions[?(@.type=='Ready')].status} {.status.conditions[*].message}")
		if !strings.HasPrefix(got, "False") || !strings.Contains(got, "write alias: al2023@latest") {
			return fmt.Errorf("the class of Amazon Linux 2 says %q", got)
		}
		return nil
	})
	c.wantEvents("involvedObject.kind=NodeClaim,reason=NodeNotJoining", "/etc/eks/bootstrap.sh is Amazon Linux 2's")
}

// trap has a requirement of EKS Auto Mode, which restricts nothing with an EC2NodeClass: kubectl warns, and why says
// what to write.
const trap = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: trap}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [c]}]
      taints: [{key: trap, effect: NoSchedule}]
`

func (c *cluster) checkTrap() {
	c.t.Helper()
	const want = "spec.template.spec.requirements[0]: eks.amazonaws.com/instance-category is not a key of EC2NodeClass instances, " +
		"so it restricts no instance and is at most a label of the node; write karpenter.k8s.aws/instance-category"
	c.eventually(time.Minute, func() error { // the API server learns of the webhook asynchronously
		if out, err := c.runIn(trap, "kubectl", "replace", "--force", "-f", "-"); err != nil ||
			!strings.Contains(out, "Warning: "+want) {
			return fmt.Errorf("kubectl replace: %v\n%s", err, out)
		}
		return nil
	})
	c.eventually(time.Minute, func() error {
		if out, err := c.run("why", "nodepool/trap"); err != nil ||
			!strings.Contains(strings.Join(strings.Fields(out), " "), "unknown key "+want) {
			return fmt.Errorf("why: %v\n%s", err, out)
		}
		return nil
	})
}

// Simulated nodes respond in place of kubelets: with what a container would print, or with the reason why they
// cannot.
func TestSimulatedNodesAnswerKubectl(t *testing.T) {
	t.Parallel()
	c := up(t, "--microvms=false", "--page", "", "--boot-time", "1s")
	c.kubectl("create", "deployment", "web", "--image=nginx")
	c.kubectl("create", "job", "greet", "--image=busybox", "--", "sh", "-c", "echo hello there; sleep 1")
	c.kubectl("rollout", "status", "deployment", "web", "--timeout=240s")
	c.kubectl("wait", "--for=condition=complete", "job/greet", "--timeout=240s")
	node := c.nodes()[0].Name
	c.checkFamilies()
	c.checkTrap()

	if got := c.kubectl("logs", "deployment/web"); !strings.HasPrefix(got, "[simulated] ") ||
		!strings.Contains(got, "image nginx does not run here") {
		t.Errorf("logs of a running pod: %q", got)
	}
	got := c.kubectl("logs", "--follow", "job/greet") // ends because the pod has ended
	for _, want := range []string{
		"[simulated] hello there\n",
		"[simulated] the simulated process has ended with exit code 0\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("logs of a pod that has ended: %q, without %q", got, want)
		}
	}
	for _, refused := range [][]string{
		{"exec", "deployment/web", "--", "ls"},
		{"attach", "deployment/web"},
		{"port-forward", "deployment/web", ":80"},
	} {
		out, err := c.run(append([]string{"kubectl"}, refused...)...)
		if want := refused[0] + ": pod default/web-"; err == nil || !strings.Contains(out, want) ||
			!strings.Contains(out, "is on a simulated node, where no container runs") {
			t.Errorf("kubectl %s: %v, %q", strings.Join(refused, " "), err, out)
		}
	}
	for reason, message := range map[string]string{
		"Starting":                "Starting kubelet.",
		"NodeHasSufficientMemory": "Node " + node + " status is now: NodeHasSufficientMemory",
		"NodeReady":               "Node " + node + " status is now: NodeReady",
	} {
		c.wantEvents(fmt.Sprintf("involvedObject.kind=Node,involvedObject.name=%s,reason=%s", node, reason), message)
	}
	c.eventually(time.Minute, func() error {
		instances, err := c.instances()
		if err != nil {
			return err
		}
		i := instances[0]
		if len(i.BlockDeviceMappings) != 1 || *i.BlockDeviceMappings[0].DeviceName != "/dev/xvda" ||
			i.Monitoring == nil || i.Monitoring.State != "disabled" {
			return fmt.Errorf("the instance has the devices %+v and monitoring %+v", i.BlockDeviceMappings, i.Monitoring)
		}
		return nil
	})
}
