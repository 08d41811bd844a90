package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/examples"
)

// call is one API call as the region saw it.
type call struct {
	API   string `json:"api"`
	Token string `json:"token"`
	Error string `json:"error"`
}

func (c *cluster) calls(api string) []call {
	c.t.Helper()
	var all []call
	if err := c.admin("GET", "/_nodeless/calls", nil, &all); err != nil {
		c.t.Fatal(err)
	}
	var found []call
	for _, x := range all {
		if x.API == api {
			found = append(found, x)
		}
	}
	return found
}

// The articles' story: 0 → 100 → 99 → 0 pods, and nodes follow, except for the one that CoreDNS needs.
func TestInflate(t *testing.T) {
	t.Parallel()
	c := up(t, "--addons=true", "--boot-time", "1s")
	inflate, err := examples.FS.ReadFile("inflate.yaml")
	if err != nil {
		t.Fatal(err)
	}

	c.apply(string(inflate))
	c.wantPods(2*time.Minute, "default", "inflate", 100)
	c.eventually(time.Minute, c.everyClaimReady)
	c.eventually(time.Minute, c.instancesAreClaims)
	instances, err := c.instances()
	if err != nil {
		t.Fatal(err)
	}
	if fleets, runs := len(c.calls("CreateFleet")), len(c.calls("RunInstances")); fleets < len(instances) || runs > 0 {
		t.Errorf("%d instances from %d CreateFleet and %d RunInstances calls; want CreateFleet alone", len(instances),
			fleets, runs)
	}
	c.checkColumns()

	c.kubectl("scale", "deployment", "inflate", "--replicas", "99")
	c.wantPods(time.Minute, "default", "inflate", 99)

	c.kubectl("scale", "deployment", "inflate", "--replicas", "0")
	c.wantPods(time.Minute, "default", "inflate", 0)
	c.eventually(2*time.Minute, func() error {
		if err := c.onlyCoreDNSsNode(); err != nil {
			return err
		}
		return c.othersAreTerminated()
	})

	c.apply(autoInflate) // written for EKS Auto Mode, it also runs on a plain cluster
	c.wantPods(time.Minute, "default", "inflate", 1)
	on := c.kubectl("get", "pods", "-l", "app=inflate", "-o", "jsonpath={.items[0].spec.nodeName}")
	if got := c.kubectl("get", "node", on, "-L", "eks.amazonaws.com/compute-type,karpenter.sh/nodepool"); !strings.Contains(
		strings.Join(strings.Fields(got), " "), " auto general-purpose") {
		t.Errorf("the node of Auto Mode's manifest:\n%s", got)
	}
}

// othersAreTerminated returns an error if an instance that is not the one NodeClaim's is not terminated.
func (c *cluster) othersAreTerminated() error {
	out, err := c.ec2.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{})
	if err != nil {
		return err
	}
	claims := c.claims()
	if len(claims) != 1 {
		return fmt.Errorf("%d claims, want one", len(claims))
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if i.State.Name != "terminated" && !strings.HasSuffix(claims[0].Status.ProviderID, *i.InstanceId) {
				return fmt.Errorf("instance %s is %s", *i.InstanceId, i.State.Name)
			}
		}
	}
	return nil
}

// everyClaimReady checks the conditions, provider IDs and labels that existing tools read.
func (c *cluster) everyClaimReady() error {
	nodes := map[string]corev1.Node{}
	for _, n := range c.nodes() {
		nodes[n.Name] = n
	}
	for _, claim := range c.claims() {
		for _, t := range []string{
			karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered,
			karpv1.ConditionTypeInitialized, "Ready",
		} {
			if cond := claim.StatusConditions().Get(t); cond == nil || !cond.IsTrue() {
				return fmt.Errorf("claim %s: %s is %v", claim.Name, t, cond)
			}
		}
		n, ok := nodes[claim.Status.NodeName]
		if !ok || n.Spec.ProviderID != claim.Status.ProviderID {
			return fmt.Errorf("claim %s: node %q with provider id %q not found", claim.Name, claim.Status.NodeName,
				claim.Status.ProviderID)
		}
		for key, want := range map[string]string{
			karpv1.NodePoolLabelKey: "general-purpose", karpv1.NodeRegisteredLabelKey: "true",
			karpv1.NodeInitializedLabelKey: "true", karpv1.CapacityTypeLabelKey: "on-demand", "kubernetes.io/arch": "amd64",
		} {
			if n.Labels[key] != want {
				return fmt.Errorf("node %s: label %s is %q, want %q", n.Name, key, n.Labels[key], want)
			}
		}
		for _, taint := range n.Spec.Taints {
			return fmt.Errorf("node %s still has taint %s", n.Name, taint.Key)
		}
	}
	return nil
}

// checkColumns compares kubectl's columns with those of karpenter.sh/v1.
func (c *cluster) checkColumns() {
	c.t.Helper()
	for what, want := range map[string]string{
		"nodeclaims": "NAME TYPE CAPACITY ZONE NODE READY AGE",
		"nodepools":  "NAME NODECLASS NODES READY AGE",
	} {
		head, _, _ := strings.Cut(c.kubectl("get", what), "\n")
		if got := strings.Join(strings.Fields(head), " "); got != want {
			c.t.Errorf("kubectl get %s: columns %q, want %q", what, got, want)
		}
	}
	c.eventually(time.Minute, func() error { // the pool's node count lags behind changes
		row := strings.Fields(c.kubectl("get", "nodepool", "general-purpose", "--no-headers"))
		if nodes := len(c.claims()); len(row) < 4 || row[1] != "default" || row[2] != fmt.Sprint(nodes) || row[3] != "True" {
			return fmt.Errorf("kubectl get nodepool: %q, want class default, %d nodes, ready", row, nodes)
		}
		return nil
	})
}
