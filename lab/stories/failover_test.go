package stories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/examples"
)

// mishap is something that goes wrong while pods come and go.
type mishap struct {
	name string
	do   func()
}

// Two replicas run a cluster while everything goes wrong that can: the leader is killed or terminated, the API server
// and the region are killed and restarted, and instances, nodes, claims and finalizers are removed by hand. In the
// end every pod runs, NodeClaims and instances correspond one to one, and nothing was ever launched twice.
func TestMishapsUnderLoad(t *testing.T) {
	t.Parallel()
	c := up(t, "--controller=false", "--boot-time", "500ms")
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("seed %d: the same order with SEED=%d, though not the same moments", seed, seed)
	chance := rand.New(rand.NewPCG(seed, 2))
	// Small instance types, so that there are many nodes.
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "json", "-p",
		`[{"op":"add","path":"/spec/template/spec/requirements/-","value":{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["9"]}}]`)
	a, b := c.replica("a"), c.replica("b")
	inflate, err := examples.FS.ReadFile("inflate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(inflate))
	c.wantPods(120*time.Second, "default", "inflate", 100)

	mishaps := c.mishaps(chance, a, b)
	chance.Shuffle(len(mishaps), func(i, j int) { mishaps[i], mishaps[j] = mishaps[j], mishaps[i] })
	began := time.Now()
	said := func(what string) { t.Logf("%s: %s", time.Since(began).Round(time.Second), what) }
	for _, m := range mishaps {
		said(m.name)
		m.do()
		c.kubectl("scale", "deployment", "inflate", "--replicas", fmt.Sprint(20+chance.IntN(100)))
		time.Sleep(time.Duration(chance.Int64N(int64(time.Second)))) // the random moment is the test
	}

	c.kubectl("scale", "deployment", "inflate", "--replicas", "60")
	said("from here on nothing more goes wrong")
	c.wantPods(240*time.Second, "default", "inflate", 60)
	said("60 pods run")
	c.eventually(120*time.Second, c.instancesAreClaims)
	said("each instance is a claim's")
	c.eventually(2*time.Minute, c.nodesAreClaims)
	said("each node is a claim's")
	c.kubectl("scale", "deployment", "inflate", "--replicas", "0")
	c.eventually(180*time.Second, c.nothingLeft)
	c.nothingLaunchedTwice()
}

func (c *cluster) mishaps(chance *rand.Rand, replicas ...*replica) []mishap {
	anyone := func() *replica { return replicas[chance.IntN(len(replicas))] }
	leader := func() *replica {
		if r := c.leader(replicas...); r != nil {
			return r
		}
		return anyone()
	}
	return []mishap{
		{"the leader is killed", func() { leader().signal(syscall.SIGKILL) }},
		{"some replica is killed", func() { anyone().signal(syscall.SIGKILL) }},
		{"the leader is told to end", func() { leader().signal(syscall.SIGTERM) }},
		{"both replicas are killed", func() {
			for _, r := range replicas {
				r.signal(syscall.SIGKILL)
			}
		}},
		{"API server and region are killed and come again", func() {
			c.stop(syscall.SIGKILL)
			c.start()
		}},
		{"two instances are terminated by hand", func() { c.terminateSome(chance, 2) }},
		{"another instance is terminated by hand", func() { c.terminateSome(chance, 1) }},
		{"a node is deleted by hand", func() { c.deleteSome(chance, "node", "") }},
		{"a claim is deleted by hand", func() { c.deleteSome(chance, "nodeclaim", "") }},
		{"another claim is deleted by hand", func() { c.deleteSome(chance, "nodeclaim", "") }},
		{
			"a claim's finalizer is removed by hand, and the claim",
			func() { c.deleteSome(chance, "nodeclaim", `{"metadata":{"finalizers":null}}`) },
		},
		{
			"a node's finalizer is removed by hand, and the node",
			func() { c.deleteSome(chance, "node", `{"metadata":{"finalizers":null}}`) },
		},
	}
}

// terminateSome terminates instances behind the controller's back.
func (c *cluster) terminateSome(chance *rand.Rand, count int) {
	c.t.Helper()
	instances, err := c.instances()
	if err != nil {
		c.t.Fatal(err)
	}
	for range min(count, len(instances)) {
		id := *instances[chance.IntN(len(instances))].InstanceId
		if _, err := c.ec2.TerminateInstances(context.Background(),
			&ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// deleteSome deletes a random object of the kind, after a patch if there is one. The object may have been deleted
// meanwhile.
func (c *cluster) deleteSome(chance *rand.Rand, kind, patch string) {
	c.t.Helper()
	names := strings.Fields(c.kubectl("get", kind, "-o", "name"))
	if len(names) == 0 {
		return
	}
	name := names[chance.IntN(len(names))]
	if patch != "" {
		if out, err := c.run("kubectl", "patch", name, "--type", "merge", "-p", patch); err != nil &&
			!strings.Contains(out, "NotFound") {
			c.t.Fatalf("patch %s: %v\n%s", name, err, out)
		}
	}
	c.kubectl("delete", name, "--wait=false", "--ignore-not-found")
}

// nodesAreClaims compares the cluster's nodes with its NodeClaims, one to one, and reports pods that are on none of
// them.
func (c *cluster) nodesAreClaims() error {
	claims := map[string]bool{}
	for _, claim := range c.claims() {
		claims[claim.Status.ProviderID] = true
	}
	nodes := map[string]bool{}
	for _, n := range c.nodes() {
		nodes[n.Name] = true
		if !claims[n.Spec.ProviderID] {
			return fmt.Errorf("node %s has no claim", n.Name)
		}
	}
	if len(nodes) != len(claims) {
		return fmt.Errorf("%d nodes, %d claims", len(nodes), len(claims))
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("default")); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if !nodes[p.Spec.NodeName] {
			return fmt.Errorf("pod %s is on node %q, which is not there", p.Name, p.Spec.NodeName)
		}
	}
	return nil
}
