package stories

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Manifests of two articles about Karpenter before v1, unchanged except for the cluster's name.
const (
	// terraformProvisioner is deployed by Terraform, with an inline provider.
	terraformProvisioner = `
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: provisioner
spec:
  requirements:
    - key: "node.kubernetes.io/instance-type"
      operator: In
      values: [ "t4g.medium" ]
    - key: "topology.kubernetes.io/zone"
      operator: In
      values: [ "ap-northeast-2a", "ap-northeast-2b", "ap-northeast-2c" ]
    - key: "eks.amazonaws.com/capacityType"
      operator: In
      values: [ "ON_DEMAND" ]
    - key: "kubernetes.io/arch"
      operator: In
      values: [ "arm64" ]
  limits:
    resources:
      cpu: "10"
      memory: 20Gi
  ttlSecondsAfterEmpty: 30
  labels:
    environment: nodeless
    managed-by: karpenter
    Blueprint: nodeless
  provider:
    securityGroupSelector:
      Blueprint: nodeless
    subnetSelector:
      environment: nodeless
      managed-by: karpenter
    tags:
      Blueprint: nodeless
`
	// productionProvisioner has the key requirements twice; Kubernetes keeps the last one.
	productionProvisioner = `
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: karpenter-default
spec:
  subnetSelector:
    karpenter.sh/discovery: "nodeless"
  securityGroupSelector:
    karpenter.sh/discovery: "nodeless"
  instanceProfile: KarpenterInstanceProfile
  amiFamily: AL2
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs:
        volumeSize: 30Gi
        volumeType: gp3
        iops: 3000
        encrypted: true
        kmsKeyID: "arn:aws:kms:ap-northeast-2:558846430793:key/6f29df3a-fb94-48e4-b359-a88fb74ce78d"
        deleteOnTermination: true
        throughput: 125
  detailedMonitoring: true
  tags:
    Name: karpenter-eks-main/karpenter-default
    auto-delete: "no"
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: karpenter-default
spec:
  providerRef:
    name: karpenter-default
  requirements:
    - key: karpenter.k8s.aws/instance-category
      operator: In
      values: ["c", "m", "r", "t"]
    - key: karpenter.k8s.aws/instance-generation
      operator: Gt
      values: ["3"]
    - key: "karpenter.k8s.aws/instance-hypervisor"
      operator: In
      values: ["nitro"]
  requirements:
    - key: kubernetes.io/os
      operator: In
      values: ["linux"]
    - key: "kubernetes.io/arch"
      operator: In
      values: ["arm64", "amd64"]
    - key: "karpenter.sh/capacity-type"
      operator: In
      values: ["spot", "on-demand"]
    - key: "topology.kubernetes.io/zone"
      operator: In
      values: ["ap-northeast-2a", "ap-northeast-2c"]
  limits:
    resources:
      cpu: "1000"
      memory: 1000Gi
  ttlSecondsUntilExpired: 2592000
  ttlSecondsAfterEmpty: 60
  kubeletConfiguration:
    containerRuntime: containerd
    evictionMaxPodGracePeriod: 60
`
	// podENI is the VPC CNI with security groups for pods, the pool of the article's last problem, and a pod as the
	// webhook for such pods changes it. Old versions of Karpenter found no instance type with
	// vpc.amazonaws.com/pod-eni.
	podENI = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: aws-node, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: aws-node}}
  template:
    metadata: {labels: {k8s-app: aws-node}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: aws-node, image: amazon-k8s-cni, env: [{name: ENABLE_POD_ENI, value: "true"}]}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: test-nodepool}
spec:
  template:
    metadata: {labels: {nodepool: test-nodepool}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: provisioner}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [c7i.2xlarge, c7i.4xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [ap-northeast-2a, ap-northeast-2c]}
---
apiVersion: v1
kind: Pod
metadata: {name: sgp, labels: {app: sgp}}
spec:
  nodeSelector: {nodepool: test-nodepool}
  containers:
    - name: app
      image: nginx
      resources:
        requests: {cpu: "3", memory: 3Gi, vpc.amazonaws.com/pod-eni: "1"}
        limits: {vpc.amazonaws.com/pod-eni: "1"}
`
)

// fluentBit requests more CPU than is free on the Provisioner's nodes, and tolerates every taint.
const fluentBit = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: fluent-bit}
spec:
  selector: {matchLabels: {app: fluent-bit}}
  template:
    metadata: {labels: {app: fluent-bit}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists, effect: NoSchedule}, {operator: Exists, effect: NoExecute}]
      containers: [{name: agent, image: fluent/fluent-bit, resources: {requests: {cpu: 500m}}}]
`

// notOnFargate is the article's patch of the DaemonSet.
const notOnFargate = `
spec:
  template:
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - key: eks.amazonaws.com/compute-type
                operator: NotIn
                values:
                - fargate
`

// onFargate are two pods, each in a microVM of its own.
const onFargate = `
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: dashboard}
spec: {engine: Namespace, sizing: Exact, selectors: [{namespace: default, labels: {app: dashboard}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: dashboard}
spec:
  replicas: 2
  selector: {matchLabels: {app: dashboard}}
  template:
    metadata: {labels: {app: dashboard}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example.local/hello:1", resources: {requests: {cpu: 100m, memory: 64Mi}}}]
`

// The manifests of two articles about Karpenter before v1 work after `nodeless migrate`, and the cluster then shows
// what the articles show of theirs.
func TestTheArticlesAboutKarpenter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	t.Parallel()
	c := podHost(t, "--region", "ap-northeast-2", "--engine", "namespace")
	c.tagAsTerraform()
	c.createInstanceProfile("KarpenterInstanceProfile")
	c.migrated(terraformProvisioner, "amiFamily", "expireAfter", "capacityType")
	c.migrated(productionProvisioner, "the key occurs twice", "containerRuntime")
	c.kubectl("wait", "--for=condition=Ready", "nodepool", "--all", "--timeout=240s")
	for pool, want := range map[string]string{
		"provisioner":       `{"cpu":"10","memory":"20Gi"} 30s Never`,
		"karpenter-default": `{"cpu":"1000","memory":"1000Gi"} 1m 720h`,
	} {
		c.shows("^"+want+"$", "get", "nodepool", pool, "-o",
			"jsonpath={.spec.limits} {.spec.disruption.consolidateAfter} {.spec.template.spec.expireAfter}")
	}

	c.apply(deploymentIn("provisioner", "web", 2, "1500m"))
	c.wantPods(time.Minute, "default", "web", 2)
	got := c.kubectl("get", "nodes", "-l", "environment=nodeless,managed-by=karpenter,Blueprint=nodeless", "-o",
		"jsonpath={range .items[*]}{.metadata.labels['node\\.kubernetes\\.io/instance-type']} "+
			"{.metadata.finalizers[0]} {.metadata.ownerReferences[0].kind} {.status.allocatable.pods}\n{end}")
	if want := strings.Repeat("t4g.medium karpenter.sh/termination NodeClaim 17\n", 2); got != want {
		t.Errorf("nodes of the Provisioner are\n%s\nwant\n%s", got, want)
	}
	if tagged := c.textOf("ec2", "describe-instances", "--filters", "Name=tag:Blueprint,Values=nodeless", "--query",
		"Reservations[].Instances[].InstanceType"); tagged != "t4g.medium\tt4g.medium" {
		t.Errorf("instances with the tag Blueprint: %q", tagged)
	}
	c.daemonSetForSixNodes()
	c.kubectl("delete", "deployment", "web")
	c.eventually(2*time.Minute, func() error { // 30 seconds after the nodes are empty
		if out := c.kubectl("get", "nodes", "-l", "environment=nodeless", "-o", "name"); out != "" {
			return fmt.Errorf("empty nodes are still there: %s", out)
		}
		return nil
	})

	c.apply(podENI)
	c.wantPods(time.Minute, "default", "sgp", 1)
	allocatable := c.kubectl("get", "nodes", "-l", "nodepool=test-nodepool", "-o", "jsonpath={range .items[*].status}"+
		"{.allocatable.cpu} {.allocatable.ephemeral-storage} {.allocatable.memory} {.allocatable.pods} "+
		"{.allocatable.vpc\\.amazonaws\\.com/pod-eni}{end}")
	if want := "7910m 17Gi 14162Mi 58 38"; allocatable != want {
		t.Errorf("allocatable of c7i.2xlarge: %s, want %s", allocatable, want)
	}
	c.productionNode()
}

// productionNode launches a node for a pod with the requests that the article's log shows, and checks what the article
// sets and shows of it.
func (c *cluster) productionNode() {
	c.t.Helper()
	c.apply(deploymentIn("karpenter-default", "logged", 1, "1475m, memory: 1686Mi"))
	c.wantPods(time.Minute, "default", "logged", 1)
	node := c.runs(c.podsOf("default", "app=logged")[0].Name)
	c.eventually(time.Minute, func() error { // kube-controller-manager adds the ttl
		shown := c.kubectl("get", "nodes", node, "--show-managed-fields", "-o", "yaml")
		return matches(shown, `finalizers:\n  - karpenter.sh/termination\n`,
			`kind: NodeClaim\n    name: karpenter-default-`, `node.alpha.kubernetes.io/ttl: "0"`, `managedFields:\n`)
	})
	c.eventually(time.Minute, func() error { // a node may run pods before kube-controller-manager has removed its taints
		return matches(c.kubectl("get", "node", node, "--show-labels"),
			`karpenter.k8s.aws/instance-category=[cmr],`, `karpenter.k8s.aws/instance-cpu=2,`,
			`karpenter.k8s.aws/instance-encryption-in-transit-supported=(true|false),`,
			`karpenter.k8s.aws/instance-family=[cmr]\w+,`, `karpenter.k8s.aws/instance-generation=\d,`,
			`karpenter.k8s.aws/instance-hypervisor=nitro,`,
			`karpenter.k8s.aws/instance-memory=\d+,`, `karpenter.k8s.aws/instance-size=large,`,
			`karpenter.sh/capacity-type=(spot|on-demand),karpenter.sh/do-not-sync-taints=true,`+ // the latter since Karpenter v1
				`karpenter.sh/initialized=true,karpenter.sh/nodepool=karpenter-default,`,
			`kubernetes.io/arch=a\w+64,kubernetes.io/hostname=ip-[\d-]+\.ap-northeast-2\.compute\.internal,`,
			`topology.kubernetes.io/region=ap-northeast-2,topology.kubernetes.io/zone=ap-northeast-2[ac]`)
	})
	got := c.textOf("ec2", "describe-instances", "--filters", "Name=tag:Name,Values=karpenter-eks-main/karpenter-default",
		"--query", "Reservations[].Instances[].[PrivateDnsName,Monitoring.State,Tags[?Key=='auto-delete'].Value|[0]]")
	if got != node+"\tenabled\tno" {
		c.t.Errorf("instances with the tag Name: %q, want %s with detailed monitoring and the tag auto-delete", got, node)
	}
	c.shows("^720h 26Gi$", "get", "nodeclaim", "-l", "karpenter.sh/nodepool=karpenter-default", "-o",
		"jsonpath={.items[*].spec.expireAfter} {.items[*].status.allocatable.ephemeral-storage}")
}

// deploymentIn returns a Deployment whose pods select the nodes of a Provisioner's successor by NodePool label.
func deploymentIn(pool, name string, replicas int, cpu string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: %[3]s}
      containers: [{name: app, image: nginx, resources: {requests: {cpu: %[4]s}}}]
`, name, replicas, pool, cpu)
}

// tagAsTerraform tags subnets and security groups as the article's Terraform does.
func (c *cluster) tagAsTerraform() {
	c.t.Helper()
	ctx := context.Background()
	subnets, err := c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	groups, err := c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	in := &ec2.CreateTagsInput{Tags: []ec2types.Tag{
		{Key: aws.String("environment"), Value: aws.String("nodeless")},
		{Key: aws.String("managed-by"), Value: aws.String("karpenter")},
		{Key: aws.String("Blueprint"), Value: aws.String("nodeless")},
	}}
	for _, n := range subnets.Subnets {
		in.Resources = append(in.Resources, *n.SubnetId)
	}
	for _, g := range groups.SecurityGroups {
		in.Resources = append(in.Resources, *g.GroupId)
	}
	if _, err := c.ec2.CreateTags(ctx, in); err != nil {
		c.t.Fatal(err)
	}
}

// createInstanceProfile creates an instance profile without a role.
func (c *cluster) createInstanceProfile(name string) {
	c.t.Helper()
	_, err := iam.NewFromConfig(c.aws).CreateInstanceProfile(context.Background(),
		&iam.CreateInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		c.t.Fatal(err)
	}
}

// migrated applies the output of `nodeless migrate` for manifests, with the image that its report advises. The report
// must contain the words.
func (c *cluster) migrated(manifests string, words ...string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "karpenter.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.shell("", fmt.Sprintf(`"$NODELESS" migrate -f %[1]s --node-role nodeless-node > %[1]s.pools 2> %[1]s.report
sed s/al2@latest/al2023@latest/ %[1]s.pools | "$NODELESS" kubectl apply -f -
cat %[1]s.report`, file))
	if err != nil {
		c.t.Fatalf("migrate: %v\n%s", err, out)
	}
	for _, word := range append(words, "use the alias al2023@latest") {
		if !strings.Contains(out, word) {
			c.t.Errorf("migrate does not speak of %s:\n%s", word, out)
		}
	}
}

// daemonSetForSixNodes deploys a DaemonSet to two nodes of a managed node group, two full ones of the Provisioner and
// two of Fargate. As in the article, four of its pods do not run, then two, and none once larger nodes have replaced
// the full ones. plan lists the DaemonSet, and why says why its pods wait and what helps.
func (c *cluster) daemonSetForSixNodes() {
	c.t.Helper()
	c.createGroup(context.Background(), eks.NewFromConfig(c.aws), 2)
	c.wantGroupNodes(2)
	c.apply(onFargate)
	c.wantPods(2*time.Minute, "default", "dashboard", 2)
	c.nodesAreAsThen()

	out, err := c.runIn(fluentBit, "plan", "-f", "-")
	if err != nil || !strings.Contains(out, "fluent-bit") {
		c.t.Errorf("plan of a DaemonSet without room: %v\n%s", err, out)
	}
	c.apply(fluentBit)
	c.fluentBits(2, 4)
	why := c.whyFluentBitsWait()
	if strings.Count(why, "a microVM runs no pod but its own") != 2 || !strings.Contains(why, "operator: NotIn") ||
		strings.Count(why, "on NodePool provisioner") != 2 {
		c.t.Errorf("why does not say what helps:\n%s", why)
	}
	c.kubectl("patch", "daemonset", "fluent-bit", "--patch", notOnFargate)
	c.fluentBits(2, 2)

	c.kubectl("patch", "nodepool", "provisioner", "--type=json", "-p",
		`[{"op": "add", "path": "/spec/template/spec/requirements/0/values/-", "value": "t4g.xlarge"}]`)
	for _, node := range strings.Fields(c.kubectl("get", "nodes", "-l", "environment=nodeless", "-o", "name")) {
		c.kubectl("drain", node, "--ignore-daemonsets", "--timeout=240s")
		c.kubectl("delete", node)
	}
	c.wantPods(time.Minute, "default", "web", 2)
	c.eventually(2*time.Minute, func() error {
		larger := strings.Fields(c.kubectl("get", "nodes", "-l", "environment=nodeless", "-o", "name"))
		return c.fluentBitsAre(2+len(larger), 0)
	})
	c.kubectl("delete", "daemonset/fluent-bit", "deployment/dashboard")
}

// nodesAreAsThen checks the labels and events of the six nodes against those that the article prints.
func (c *cluster) nodesAreAsThen() {
	c.t.Helper()
	nodes := c.nodes()
	if len(nodes) != 6 {
		c.t.Errorf("%d nodes, want two of each sort", len(nodes))
	}
	for _, n := range nodes {
		keys := []string{
			"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/region",
			"failure-domain.beta.kubernetes.io/zone",
		}
		if n.Labels["eks.amazonaws.com/compute-type"] != "fargate" {
			keys = append(keys, "beta.kubernetes.io/instance-type")
			c.wantNodeEvents(n.Name, "RegisteredNode", "Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure",
				"NodeHasSufficientPID", "NodeAllocatableEnforced", "NodeReady")
		}
		for _, key := range keys {
			if n.Labels[key] == "" {
				c.t.Errorf("node %s has no label %s: %v", n.Name, key, n.Labels)
			}
		}
	}
}

// wantNodeEvents waits until a Node has events with these reasons. RegisteredNode comes from Kubernetes' node
// controller, which looks for new Nodes every 5 seconds.
func (c *cluster) wantNodeEvents(node string, reasons ...string) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		events := c.kubectl("get", "events", "-A", "--field-selector", "involvedObject.kind=Node,involvedObject.name="+node)
		for _, reason := range reasons {
			if !strings.Contains(events, reason) {
				return fmt.Errorf("node %s has no event %s:\n%s", node, reason, events)
			}
		}
		return nil
	})
}

// fluentBits waits until the given numbers of the DaemonSet's pods run and wait.
func (c *cluster) fluentBits(running, waiting int) {
	c.t.Helper()
	c.eventually(2*time.Minute, func() error { return c.fluentBitsAre(running, waiting) })
}

func (c *cluster) fluentBitsAre(running, waiting int) error {
	phases := c.phases("default", "fluent-bit")
	if phases["Running"] != running || phases["Pending"] != waiting || len(phases) > 2 {
		return fmt.Errorf("pods of the DaemonSet by phase: %v, want %d Running and %d Pending", phases, running, waiting)
	}
	return nil
}

// whyFluentBitsWait returns the output of why for those that wait.
func (c *cluster) whyFluentBitsWait() string {
	c.t.Helper()
	var all strings.Builder
	for _, pod := range strings.Fields(c.kubectl("get", "pods", "-l", "app=fluent-bit", "--field-selector",
		"status.phase=Pending", "-o", "name")) {
		out, err := c.run("why", pod)
		if err != nil {
			c.t.Errorf("why %s: %v", pod, err)
		}
		all.WriteString(out)
	}
	return all.String()
}
