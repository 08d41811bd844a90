package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// groupPolicy assigns the pods of an app to a security group (Amazon EKS user guide, "Use a security group policy for
// an Amazon EKS Pod").
const groupPolicy = `
apiVersion: vpcresources.k8s.aws/v1beta1
kind: SecurityGroupPolicy
metadata: {name: %[1]s}
spec:
  podSelector: {matchLabels: {app: %[1]s}}
  securityGroups: {groupIds: [%[2]s]}
`

// Security groups for pods as set up in the EKS user guide. Until the VPC CNI supports them, no node is launched for
// such pods, and why says what to do. Then nodes have a trunk interface, each pod has a branch interface in its
// security group, and as many nodes are launched as the branches need. EC2's errors are reported.
func TestPodsInSecurityGroupsOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s")
	c.start()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p", m5Larges)
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	group := c.createSecurityGroup("my-app")
	if out, err := c.runIn(strings.Replace(fmt.Sprintf(groupPolicy, "none", group), "podSelector", "#", 1), "kubectl", "apply",
		"-f", "-"); err == nil || !strings.Contains(out, "give podSelector or serviceAccountSelector") {
		t.Errorf("a policy that selects nothing: %v %s", err, out)
	}
	c.apply(fmt.Sprintf(groupPolicy, "my-app", group))
	c.eventually(time.Minute, func() error { // the webhook learns of the policy asynchronously
		out := c.kubectl("run", "probe", "--image=nginx", "--labels=app=my-app", "--dry-run=server", "-o", "yaml")
		if !strings.Contains(out, "vpc.amazonaws.com/pod-eni") {
			return fmt.Errorf("a pod does not ask for a branch interface:\n%s", out)
		}
		return nil
	})
	c.kubectl("create", "deployment", "my-app", "--image=nginx", "--replicas=2")
	c.eventually(time.Minute, func() error {
		pods := c.podsOf("default", "app=my-app")
		if len(pods) != 2 {
			return fmt.Errorf("%d pods, want 2", len(pods))
		}
		for _, p := range pods {
			if q := p.Spec.Containers[0].Resources.Limits["vpc.amazonaws.com/pod-eni"]; q.Value() != 1 {
				return fmt.Errorf("pod %s asks for %s branch interfaces", p.Name, &q)
			}
			if out := c.why("pod/" + p.Name); !strings.Contains(out, "aws-node -n kube-system ENABLE_POD_ENI=true") {
				return fmt.Errorf("why does not say what helps:\n%s", out)
			}
		}
		return nil
	})

	without := c.watchAddresses("default")
	c.kubectl("set", "env", "daemonset", "aws-node", "-n", "kube-system", "ENABLE_POD_ENI=true")
	c.eventually(time.Minute, c.coreDNSHasATrunk)
	c.kubectl("scale", "deployment", "my-app", "--replicas=20")
	c.wantPods(4*time.Minute, "default", "my-app", 20)
	c.eventually(time.Minute, func() error { return c.podsHaveBranches("my-app", group, 20) })
	if seen, late := without(); len(late) > 0 || seen < 20 {
		t.Errorf("of %d pods with a node %d waited for an address: %v", seen, len(late), late)
	}
	c.eventually(time.Minute, func() error {
		offered := c.kubectl("get", "nodes", "-l", "vpc.amazonaws.com/has-trunk-attached=true", "-o",
			"jsonpath={range .items[*]}{.status.allocatable.vpc\\.amazonaws\\.com/pod-eni} {end}")
		if n := len(c.nodes()); n != 3 || offered != "9 9 9 " {
			return fmt.Errorf("%d nodes, those with a trunk offer %q; want three with nine each", n, offered)
		}
		if out := c.kubectl("get", "cninodes"); strings.Count(out, `"name":"SecurityGroupsForPods"`) != 3 {
			return fmt.Errorf("CNINodes:\n%s", out)
		}
		return nil
	})
	c.wantEvents("reason=SecurityGroupRequested", "Pod will get the following Security Groups ["+group+"]")

	c.kubectl("patch", "configmap", "amazon-vpc-cni", "-n", "kube-system", "--type", "merge", "-p",
		`{"data":{"branch-eni-cooldown":"30"}}`)
	c.wantEvents("reason=BranchENICoolDownPeriodUpdated", "Branch ENI cool down period has been updated to 30s")
	c.kubectl("scale", "deployment", "my-app", "--replicas=1")
	c.eventually(2*time.Minute, func() error { return c.podsHaveBranches("my-app", group, 1) })

	c.apply(fmt.Sprintf(groupPolicy, "lost", "sg-0123456789abcdef0"))
	c.eventually(time.Minute, func() error { // the webhook learns of the policy asynchronously
		c.kubectl("delete", "pod", "lost", "--ignore-not-found", "--now")
		c.kubectl("run", "lost", "--image=nginx", "--labels=app=lost")
		if out := c.kubectl("get", "pod", "lost", "-o", "yaml"); !strings.Contains(out, "vpc.amazonaws.com/pod-eni") {
			return fmt.Errorf("the pod does not ask for a branch interface:\n%s", out)
		}
		return nil
	})
	c.wantEvents("involvedObject.name=lost,reason=BranchAllocationFailed", "'sg-0123456789abcdef0' does not exist")
	c.eventually(time.Minute, func() error {
		if out := c.why("pod/lost"); !strings.Contains(out, "its event BranchAllocationFailed says why") {
			return fmt.Errorf("why does not say where to look:\n%s", out)
		}
		return nil
	})
}

func (c *cluster) createSecurityGroup(name string) string {
	c.t.Helper()
	out, err := c.ec2.CreateSecurityGroup(context.Background(), &ec2.CreateSecurityGroupInput{
		GroupName: &name, Description: aws.String("pods of a story"),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return *out.GroupId
}

// coreDNSHasATrunk returns an error unless the node of CoreDNS offers branch interfaces.
func (c *cluster) coreDNSHasATrunk() error {
	pods := c.podsOf("kube-system", "k8s-app=kube-dns")
	if len(pods) == 0 || pods[0].Spec.NodeName == "" {
		return errors.New("CoreDNS has no node")
	}
	node := pods[0].Spec.NodeName
	offered, err := c.run("kubectl", "get", "node", node, "-o",
		`jsonpath={.status.allocatable.vpc\.amazonaws\.com/pod-eni}`)
	if err != nil || offered != "9" {
		return fmt.Errorf("node %s of CoreDNS offers %q branch interfaces, want 9: %w", node, offered, err)
	}
	return nil
}

// podsHaveBranches returns an error unless exactly n pods of an app have a branch interface each that EC2 lists in
// the security group.
func (c *cluster) podsHaveBranches(app, group string, n int) error {
	found, err := c.ec2.DescribeNetworkInterfaces(context.Background(), &ec2.DescribeNetworkInterfacesInput{
		Filters: []ec2types.Filter{{Name: aws.String("group-id"), Values: []string{group}}},
	})
	if err != nil {
		return err
	}
	var inEC2, annotated []string
	for _, e := range found.NetworkInterfaces {
		if e.InterfaceType != "branch" || e.Status != ec2types.NetworkInterfaceStatusInUse {
			return fmt.Errorf("interface %s is %s and %s", *e.NetworkInterfaceId, e.InterfaceType, e.Status)
		}
		inEC2 = append(inEC2, *e.NetworkInterfaceId+" "+*e.PrivateIpAddress+" "+*e.MacAddress)
	}
	for _, p := range c.podsOf("default", "app="+app) {
		var own []struct {
			ID  string `json:"eniId"`
			IP  string `json:"privateIp"`
			MAC string `json:"ifAddress"`
		}
		if err := json.Unmarshal([]byte(p.Annotations["vpc.amazonaws.com/pod-eni"]), &own); err != nil || len(own) != 1 {
			return fmt.Errorf("pod %s has annotations %v", p.Name, p.Annotations)
		}
		if own[0].IP != p.Status.PodIP {
			return fmt.Errorf("pod %s has %s and the interface %+v", p.Name, p.Status.PodIP, own[0])
		}
		annotated = append(annotated, own[0].ID+" "+own[0].IP+" "+own[0].MAC)
	}
	slices.Sort(inEC2)
	slices.Sort(annotated)
	if len(inEC2) != n || !slices.Equal(inEC2, annotated) {
		return fmt.Errorf("EC2 has %d interfaces in %s, pods have %d; want %d:\n%v\n%v", len(inEC2), group, len(annotated), n,
			inEC2, annotated)
	}
	return nil
}
