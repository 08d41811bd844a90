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
)

// Manifests of two articles about Karpenter before v1, but for the name of the cluster.
const (
	// terraformProvisioner is deployed by Terraform, with the provider inline.
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
	// productionProvisioner has the key requirements twice, of which Kubernetes keeps the last.
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
	// webhook for such pods changes it: old versions of Karpenter found no instance type with vpc.amazonaws.com/pod-eni.
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
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: karpenter-default}
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

// agentThatDoesNotFit asks for more CPU than its nodes have left, and keeps off Fargate as the article has it.
const agentThatDoesNotFit = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: fluent-bit}
spec:
  selector: {matchLabels: {app: fluent-bit}}
  template:
    metadata: {labels: {app: fluent-bit}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}]
      nodeSelector: {environment: nodeless}
      containers: [{name: agent, image: fluent/fluent-bit, resources: {requests: {cpu: 500m}}}]
`

// The manifests of two articles about Karpenter before v1 work after `nodeless migrate`, and what the articles show of
// their clusters is what is seen here.
func TestTheArticlesAboutKarpenter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--region", "ap-northeast-2", "--boot-time", "1s", "--addons=false")
	c.start()
	c.tagAsTerraform()
	c.migrated(terraformProvisioner, "amiFamily", "expireAfter", "capacityType")
	c.migrated(productionProvisioner, "the key occurs twice", "containerRuntime")
	c.kubectl("wait", "--for=condition=Ready", "nodepool", "--all", "--timeout=60s")

	c.apply(deploymentIn("provisioner", "web", 2, "1500m"))
	c.wantPods(time.Minute, "default", "web", 2)
	got := c.kubectl("get", "nodes", "-l", "environment=nodeless,managed-by=karpenter,Blueprint=nodeless", "-o",
		"jsonpath={range .items[*]}{.metadata.labels['node\\.kubernetes\\.io/instance-type']} "+
			"{.metadata.finalizers[0]} {.metadata.ownerReferences[0].kind} {.status.allocatable.pods}\n{end}")
	if want := strings.Repeat("t4g.medium karpenter.sh/termination NodeClaim 17\n", 2); got != want {
		t.Errorf("nodes of the Provisioner are\n%s\nwant\n%s", got, want)
	}
	c.crowded()
	c.kubectl("delete", "deployment", "web")
	c.eventually(2*time.Minute, func() error { // 30 seconds after they are empty
		if out := c.kubectl("get", "nodes", "-l", "environment=nodeless", "-o", "name"); out != "" {
			return fmt.Errorf("empty nodes are still there: %s", out)
		}
		return nil
	})

	c.apply(podENI)
	c.wantPods(time.Minute, "default", "sgp", 1)
	allocatable := c.kubectl("get", "nodes", "-l", "nodepool=test-nodepool", "-o", "jsonpath={range .items[*].status}"+
		"{.allocatable.cpu} {.allocatable.memory} {.allocatable.pods} {.allocatable.vpc\\.amazonaws\\.com/pod-eni}{end}")
	if want := "7910m 14162Mi 58 38"; allocatable != want {
		t.Errorf("allocatable of c7i.2xlarge: %s, want %s", allocatable, want)
	}
}

// deploymentIn is a Deployment whose pods run on nodes that a Provisioner stands for, with its label of then.
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

// tagAsTerraform gives subnets and security groups the tags that the article's Terraform gives them.
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

// migrated applies what `nodeless migrate` makes of manifests, with the image that its report advises. The report says
// these words.
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

// crowded deploys a DaemonSet whose pods do not fit on the nodes of the Provisioner, which plan and why foretell.
func (c *cluster) crowded() {
	c.t.Helper()
	out, err := c.runIn(agentThatDoesNotFit, "plan", "-f", "-")
	if err != nil || !strings.Contains(out, "fluent-bit") {
		c.t.Errorf("plan of a DaemonSet without room: %v\n%s", err, out)
	}
	c.apply(agentThatDoesNotFit)
	c.eventually(time.Minute, func() error {
		if n := c.phases("default", "fluent-bit")["Pending"]; n != 2 {
			return fmt.Errorf("%d pods of the DaemonSet are Pending, want 2", n)
		}
		return nil
	})
	name := c.kubectl("get", "pods", "-l", "app=fluent-bit", "-o", "jsonpath={.items[0].metadata.name}")
	if out, err := c.run("why", "pod/"+name); err != nil || !strings.Contains(out, "cpu") {
		c.t.Errorf("why of a DaemonSet's pod without room: %v\n%s", err, out)
	}
	c.kubectl("delete", "daemonset", "fluent-bit")
}
