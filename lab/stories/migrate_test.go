package stories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// oldKarpenter is a cluster that runs Karpenter before v1 on two large nodes, with Cluster Autoscaler beside it.
const oldKarpenter = `
apiVersion: v1
kind: Node
metadata:
  name: old-1
  labels:
    {karpenter.sh/provisioner-name: old, kubernetes.io/os: linux, kubernetes.io/arch: amd64,
    topology.kubernetes.io/region: us-west-2, topology.kubernetes.io/zone: us-west-2a,
    node.kubernetes.io/instance-type: m5.2xlarge, karpenter.sh/capacity-type: on-demand}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "58"}
  allocatable: {cpu: 7910m, memory: 30Gi, pods: "58"}
---
apiVersion: v1
kind: Node
metadata:
  name: old-2
  labels:
    {karpenter.sh/provisioner-name: old, kubernetes.io/os: linux, kubernetes.io/arch: amd64,
    topology.kubernetes.io/region: us-west-2, topology.kubernetes.io/zone: us-west-2a,
    node.kubernetes.io/instance-type: m5.2xlarge, karpenter.sh/capacity-type: on-demand}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "58"}
  allocatable: {cpu: 7910m, memory: 30Gi, pods: "58"}
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec:
  providerRef: {name: old}
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.2xlarge]}]
  ttlSecondsUntilExpired: 604800
  consolidation: {enabled: true}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: old}
spec:
  amiFamily: Bottlerocket
  subnetSelector: {karpenter.sh/discovery: nodeless}
  securityGroupSelector: {karpenter.sh/discovery: nodeless}
  metadataOptions: {httpPutResponseHopLimit: 2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  replicas: 0
  selector: {matchLabels: {app: ca}}
  template:
    metadata: {labels: {app: ca}}
    spec:
      containers:
      - name: ca
        image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0
        args: [--cloud-provider=aws, --scale-down-unneeded-time=5m]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pinned}
spec:
  replicas: 4
  selector: {matchLabels: {app: pinned}}
  template:
    metadata: {labels: {app: pinned}}
    spec:
      nodeSelector: {karpenter.sh/provisioner-name: old}
      tolerations: [{operator: Exists}] # nobody reports for these nodes
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 900m}}}]
`

// oldKinds returns the CRDs of kinds that Nodeless does not install.
func oldKinds() string {
	var out strings.Builder
	for _, k := range [][4]string{
		{"karpenter.sh", "v1alpha5", "provisioners", "Provisioner"},
		{"karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "AWSNodeTemplate"},
	} {
		out.WriteString(strings.NewReplacer("GROUP", k[0], "VERSION", k[1], "PLURAL", k[2], "KIND", k[3]).Replace(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  scope: Cluster
  names: {kind: KIND, plural: PLURAL}
  versions:
  - name: VERSION
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))
	}
	return out.String()
}

// migrate runs `nodeless migrate` and returns its output, its report or error, and its exit code.
func (c *cluster) migrate(stdin string, args ...string) (out, report string, code int) {
	c.t.Helper()
	cmd := exec.Command(binary, append([]string{"migrate"}, args...)...)
	cmd.Env, cmd.Stdin = append(c.environment(), "NODELESS_DATA_DIR="+c.dir), strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		c.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), code
}

// A running cluster with a Karpenter before v1 is migrated. The report compares the nodes that its pods have with
// those that they would have. Nothing changes until --apply is given, and then everything or nothing is applied.
func TestAClusterIsMigratedAsItRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--addons=false")
	c.start()
	c.apply(oldKinds())
	c.kubectl("wait", "--for=condition=Established", "crd/provisioners.karpenter.sh",
		"crd/awsnodetemplates.karpenter.k8s.aws")
	c.apply(oldKarpenter)
	c.eventually(time.Minute, func() error {
		got := c.kubectl("get", "pods", "-l", "app=pinned", "-o", "jsonpath={.items[*].spec.nodeName}")
		if len(strings.Fields(got)) != 4 {
			return errors.New("pods have no nodes yet: " + got)
		}
		return nil
	})

	live := []string{"--from-cluster", "--node-role", "nodeless-node"}
	pools, report, code := c.migrate("", live...)
	for _, want := range []string{
		`today         2 × m5\.2xlarge on-demand: \$560\.64 a month`,
		`as written    2 × m5\.large on-demand: \$140\.16 a month`,
		`Provisioner old \(the cluster\)`, `two autoscalers would launch nodes for the same pods`,
	} {
		if code != 0 || !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("exit code %d; the report does not say %s:\n%s", code, want, report)
		}
	}
	var printed []string
	for _, o := range []string{
		"provisioner/old", "awsnodetemplate/old", "-n=kube-system deployment/cluster-autoscaler", "deployment/pinned",
	} {
		printed = append(printed, c.kubectl(append([]string{"get", "-o", "yaml"}, strings.Fields(o)...)...))
	}
	if same, _, _ := c.migrate(strings.Join(printed, "---\n"), "-f", "-", "--node-role", "nodeless-node"); same != pools {
		t.Errorf("from files:\n%s\nfrom the cluster:\n%s", same, pools)
	}
	c.migratedWithoutRights()
	c.allOrNothing(live)

	done, report, code := c.migrate("", append(live, "--apply")...)
	want := "Deployment pinned: left: its pods would be restarted: apply it when that suits you\n" +
		"EC2NodeClass old: created\nNodePool old: created\n"
	if code != 0 || done != want || strings.Contains(report, "Warning") {
		t.Errorf("--apply: exit code %d, %q, want %q:\n%s", code, done, want, report)
	}
	c.kubectl("wait", "--for=condition=Ready", "nodepool/old", "--timeout=240s")
	got := c.kubectl("get", "nodepool", "old", "--show-managed-fields", "-o",
		"jsonpath={.metadata.managedFields[*].manager}")
	if !strings.Contains(got, "nodeless-migrate") {
		t.Errorf("the pool's fields are of %s", got)
	}
	c.eventually(time.Minute, func() error { // the controller may write the pool's status in between
		if done, _, _ := c.migrate("", append(live, "--apply")...); !strings.Contains(done, "NodePool old: unchanged") {
			return fmt.Errorf("--apply once more: %q", done)
		}
		return nil
	})
}

// migratedWithoutRights runs migrate as a user without any permissions, and then with those that the error advises.
func (c *cluster) migratedWithoutRights() {
	c.t.Helper()
	out, report, code := c.migrate("", "--from-cluster", "--as", "jane")
	want := "not allowed to list provisioners.karpenter.sh, awsnodetemplates.karpenter.k8s.aws, configmaps, " +
		"deployments.apps"
	if code != 2 || out != "" || !strings.Contains(report, want) {
		c.t.Errorf("somebody without rights: exit code %d, want 2 and %s:\n%s%s", code, want, out, report)
	}
	advised := regexp.MustCompile(`kubectl create clusterrole .*--user=NAME`).FindString(report)
	for command := range strings.SplitSeq(strings.ReplaceAll(advised, "NAME", "jane"), " && ") {
		c.kubectl(strings.Fields(command)[1:]...)
	}
	out, report, code = c.migrate("", "--from-cluster", "--as", "jane", "--node-role", "nodeless-node")
	if code != 0 || !strings.Contains(out, "kind: NodePool") || !strings.Contains(report, "not known") {
		c.t.Errorf("somebody who may list what is migrated, and no nodes: exit code %d\n%s%s", code, out, report)
	}
	out, report, code = c.migrate("", "--from-cluster", "--as", "jane", "--node-role", "nodeless-node", "--apply")
	if code != 2 || out != "" || !strings.Contains(report, "nothing was applied: ") ||
		!strings.Contains(report, `cannot get resource "ec2nodeclasses"`) || !strings.Contains(report, "--verb=get,create,patch") {
		c.t.Errorf("--apply of somebody who may not: exit code %d\n%s%s", code, out, report)
	}
}

// allOrNothing applies objects that cannot all be applied: there already is another pool of that name.
func (c *cluster) allOrNothing(live []string) {
	c.t.Helper()
	for _, kind := range []string{"nodepool", "ec2nodeclass"} {
		if out, err := c.run("kubectl", "get", kind, "old"); err == nil {
			c.t.Errorf("without --apply something was changed: %s", out)
		}
	}
	c.apply(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: old}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: other}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
`)
	out, report, code := c.migrate("", append(live, "--apply")...)
	if code != 2 || !strings.Contains(report, "nothing was applied: NodePool old: there is another one of that name") {
		c.t.Errorf("a pool of another: exit code %d\n%s%s", code, out, report)
	}
	if out, err := c.run("kubectl", "get", "ec2nodeclass", "old"); err == nil {
		c.t.Errorf("half of it was applied: %s", out)
	}
	c.kubectl("delete", "nodepool", "old")
}

// The region's node groups are migrated from what AWS reports: a managed one with nodes and pods, for which fewer
// nodes would do, and a plain Auto Scaling group.
func TestNodeGroupsOfAWSAreMigrated(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--addons=false")
	c.start()
	c.createGroup(context.Background(), eks.NewFromConfig(c.aws), 3)
	c.createAutoScalingGroup("workers")
	c.wantGroupNodes(3)
	c.apply(strings.Replace(deploymentIn("x", "web", 4, "900m"), "{karpenter.sh/nodepool: x}",
		"{tier: web}\n      tolerations: [{key: web, operator: Exists}]", 1))
	c.wantPods(time.Minute, "default", "web", 4)

	from := []string{"--from-cluster", "--from-aws"}
	pools, report, code := c.migrate("", from...)
	for _, want := range []string{
		`Nodegroup web \(AWS\)`, `AutoScalingGroup workers \(AWS\)`, `LaunchTemplate workers version 1 \(AWS\)`,
		`today         3 × m5\.large on-demand: \$210\.24 a month`,
		`as written    2 × m5\.large on-demand: \$140\.16 a month`,
	} {
		if code != 0 || !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("exit code %d; the report does not say %s:\n%s", code, want, report)
		}
	}
	if n := strings.Count(pools, "kind: NodePool\n"); n != 2 {
		t.Errorf("%d NodePools, want one for each group:\n%s", n, pools)
	}
	done, report, code := c.migrate("", append(from, "--apply")...)
	want := "EC2NodeClass web: created\nEC2NodeClass workers: created\nNodePool web: created\nNodePool workers: created\n"
	if code != 0 || done != want || strings.Contains(report, "Warning") {
		t.Errorf("--apply: exit code %d, %q, want %q:\n%s", code, done, want, report)
	}
	c.kubectl("wait", "--for=condition=Ready", "nodepool/web", "nodepool/workers", "--timeout=240s")
	_, report, code = c.migrate("", "--from-aws", "--cluster-name", "other")
	if code != 2 || !strings.Contains(report, "Auto Scaling groups of the cluster other in us-west-2") {
		t.Errorf("groups of another cluster: exit code %d\n%s", code, report)
	}
}

// createAutoScalingGroup creates a group without instances, and a launch template of the same name.
func (c *cluster) createAutoScalingGroup(name string) {
	c.t.Helper()
	ctx := context.Background()
	subnets, err := c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	security, err := c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	images, err := c.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
		{Name: aws.String("architecture"), Values: []string{"x86_64"}},
	}})
	if err != nil || len(images.Images) == 0 {
		c.t.Fatal(err, "images")
	}
	c.createInstanceProfile("workers")
	_, err = c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, InstanceType: "m5.large",
			SecurityGroupIds:   []string{*security.SecurityGroups[0].GroupId},
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("workers")},
			UserData:           aws.String("IyEvYmluL2Jhc2gK"),
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = autoscaling.NewFromConfig(c.aws).CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: aws.Int32(0), MaxSize: aws.Int32(3),
		VPCZoneIdentifier: subnets.Subnets[0].SubnetId,
		LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateName: &name, Version: aws.String("$Latest")},
		Tags: []astypes.Tag{{
			Key: aws.String("k8s.io/cluster-autoscaler/nodeless"), Value: aws.String("owned"), PropagateAtLaunch: aws.Bool(true),
		}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}
