package stories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// t3Mediums restricts the default pool to t3.medium, as in the article about kops.
const t3Mediums = `{"spec":{"template":{"spec":{"requirements":[
	{"key":"node.kubernetes.io/instance-type","operator":"In","values":["t3.medium"]},
	{"key":"topology.kubernetes.io/zone","operator":"In","values":["ap-northeast-2a","ap-northeast-2c"]},
	{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`

// The accident of the article about kops: more pods than the nodes take, and the pod limit is raised before the VPC
// CNI provides the addresses. With --preflight=enforce the nodes stay until it does. In the end 110 of 110 pods run,
// no pod was ever on a node without getting an address, the Ready nodes always had room for all pods, and each node has
// two free slots. There are fewer nodes than before, as each takes more pods.
func TestTheKopsAccidentDoesNotHappen(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--region", "ap-northeast-2", "--boot-time", "1s", "--preflight", "enforce")
	c.start()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p", t3Mediums)
	c.allocatable("17") // the node that CoreDNS got before is replaced
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	c.allocatable("17") // the old node has gone
	without := c.watchAddresses("default", "kube-system")
	c.apply(kopsNginx)
	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=110")
	c.wantPods(4*time.Minute, "default", "nginx", 110)
	c.allocatable("17")

	change := []string{
		"patch", "ec2nodeclass", "default", "--type", "merge", "-p", `{"spec":{"kubelet":{"maxPods":110}}}`,
	}
	changed := c.kubectl(append(change, "--dry-run=client", "-o", "yaml")...)
	foretold, err := c.runIn(changed, "plan", "-f", "-")
	if err = cmp.Or(err, matches(foretold, `up\s+to\s+93\s+pods\s+of\s+each\s+would\s+stay`)); err != nil {
		t.Errorf("plan: %v\n%s", err, foretold)
	}
	before, room := c.claims(), c.watchRoom()
	c.kubectl(change...)
	c.wantCondition("nodepool", "general-purpose", "NodelessPreflightPassed",
		"t3.medium: 110 pods, 93 of them without an address")
	c.eventually(2*time.Minute, func() error {
		for _, n := range c.nodes() {
			a := c.whyJSON("node/"+n.Name, "--preflight=enforce")
			if a.Verdict == "Gone" {
				continue // removed by consolidation since it was listed
			}
			if a.Verdict != "Kept" || !strings.Contains(a.Summary+fmt.Sprint(a.Blockers),
				"a node of t3.medium would take 110 pods and have no address for 93 of them") {
				return fmt.Errorf("node %s: %s, %s, %+v", n.Name, a.Verdict, a.Summary, a.Blockers)
			}
		}
		return nil
	})
	for _, now := range c.claims() {
		if !slices.ContainsFunc(before, func(b karpv1.NodeClaim) bool { return b.Name == now.Name }) {
			t.Errorf("%s was launched although the preflight fails", now.Name)
		}
	}

	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "ENABLE_PREFIX_DELEGATION=true", "WARM_PREFIX_TARGET=1")
	c.eventually(10*time.Minute, func() error { return c.allTake("110") })
	c.wantPods(2*time.Minute, "default", "nginx", 110)
	c.eventually(time.Minute, c.podsOutsidePrefixes)
	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", "nodepool", "general-purpose", "-o", "yaml")
		if strings.Contains(out, "NodelessPreflightPassed") {
			return fmt.Errorf("the pool still says that the preflight fails:\n%s", out)
		}
		return nil
	})
	if fewest := room(); fewest < 110+2 {
		t.Errorf("at a moment the Ready nodes had room for %d pods, less than for nginx's 110 and CoreDNS's 2", fewest)
	}
	c.eventually(time.Minute, c.twoFreeSlots)
	seen, late := without()
	t.Logf("%d pods got nodes, the last ones are on %d", seen, len(c.nodes()))
	if len(late) > 0 || seen < 220 {
		t.Errorf("of %d pods with a node %d waited for an address, want none of 220 or more: %v", seen, len(late), late)
	}
}

// allTake returns an error if a node takes another number of pods, or if there is none.
func (c *cluster) allTake(pods string) error {
	nodes := c.nodes()
	if len(nodes) == 0 {
		return errors.New("there is no node")
	}
	for i := range nodes {
		if takes := nodes[i].Status.Allocatable.Pods().String(); takes != pods {
			return fmt.Errorf("node %s takes %s pods, want %s", nodes[i].Name, takes, pods)
		}
	}
	return nil
}

// watchAddresses watches the pods of namespaces. The returned function stops watching, and returns how many pods got
// nodes and which of them the kubelet could not start for lack of an address.
func (c *cluster) watchAddresses(namespaces ...string) func() (seen int, late []string) {
	c.t.Helper()
	api := c.watching()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	log := &addressLog{bound: map[string]string{}, late: map[string]string{}}
	var done sync.WaitGroup
	for _, namespace := range namespaces {
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.EventList{}} {
			done.Go(func() {
				for ctx.Err() == nil { // the API server ends watches that it considers too slow; events are kept for an hour
					w, err := api.Watch(ctx, list, client.InNamespace(namespace))
					if err != nil {
						continue
					}
					for e := range w.ResultChan() {
						log.saw(e)
					}
				}
			})
		}
	}
	return func() (int, []string) {
		cancel()
		done.Wait()
		var late []string
		for pod, what := range log.late {
			late = append(late, pod+what)
		}
		return len(log.bound), late
	}
}

// twoFreeSlots returns an error if a node runs more than all but two of the pods that it takes.
func (c *cluster) twoFreeSlots() error {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		return err
	}
	for _, n := range c.nodes() {
		free := n.Status.Allocatable.Pods().Value()
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == n.Name {
				free--
			}
		}
		if free < 2 {
			return fmt.Errorf("node %s has room for %d more pods, want two", n.Name, free)
		}
	}
	return nil
}

// watchRoom watches the nodes. The returned function stops watching, and returns for how many pods the Ready nodes had
// room when they had the least, beside the two pods of DaemonSets on each node.
func (c *cluster) watchRoom() func() (fewest int) {
	c.t.Helper()
	api := c.watching()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	var done sync.WaitGroup
	fewest := math.MaxInt
	done.Go(func() {
		for ctx.Err() == nil { // the API server ends watches that it considers too slow
			var list corev1.NodeList
			if err := api.List(ctx, &list); err != nil {
				continue
			}
			w, err := api.Watch(ctx, &corev1.NodeList{}, &client.ListOptions{
				Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
			})
			if err != nil {
				continue
			}
			room, all := map[string]int{}, 0
			for i := range list.Items {
				room[list.Items[i].Name] = roomOn(&list.Items[i])
				all += roomOn(&list.Items[i])
			}
			fewest = min(fewest, all)
			for e := range w.ResultChan() {
				if n, ok := e.Object.(*corev1.Node); ok {
					all -= room[n.Name]
					if room[n.Name] = roomOn(n); e.Type == watch.Deleted {
						room[n.Name] = 0
					}
					all += room[n.Name]
					fewest = min(fewest, all)
				}
			}
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return fewest
	}
}

// roomOn returns how many pods a node can run beside its two of DaemonSets: none until it is Ready.
func roomOn(n *corev1.Node) int {
	for _, x := range n.Status.Conditions {
		if x.Type == corev1.NodeReady && x.Status == corev1.ConditionTrue {
			return int(n.Status.Allocatable.Pods().Value()) - 2
		}
	}
	return 0
}

// watching returns a client that can watch.
func (c *cluster) watching() client.WithWatch {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Session.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	api, err := client.NewWithWatch(cfg, client.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	return api
}

// addressLog records pods and their addresses, from watches.
type addressLog struct {
	mu    sync.Mutex
	bound map[string]string // nodes, by the pods' namespaces and names
	late  map[string]string // pods and their nodes for which the kubelet had no address → what it said last
}

func (l *addressLog) saw(e watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o := e.Object.(type) {
	case *corev1.Pod:
		key := o.Namespace + "/" + o.Name
		if o.Spec.NodeName != "" {
			l.bound[key] = o.Spec.NodeName
		}
		for _, s := range o.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason == "ContainerCreating" {
				if where := key + " on " + o.Spec.NodeName; l.late[where] == "" {
					l.late[where] = ", in ContainerCreating"
				}
			}
		}
	case *corev1.Event:
		if o.Reason == "FailedCreatePodSandBox" {
			key := o.InvolvedObject.Namespace + "/" + o.InvolvedObject.Name
			_, said, _ := strings.Cut(o.Message, "failed (add): ")
			l.late[key+" on "+o.Source.Host] = ", at " + o.LastTimestamp.Format(time.TimeOnly) + ": " + cmp.Or(said, o.Message)
		}
	}
}

// Five hundred pods need a node each, in a /22 subnet. Nodes are launched as long as the subnet has the addresses
// that the VPC CNI takes for them. The other pods wait and say so, and no pod is on a node without an address. With
// smaller warm targets more nodes fit.
func TestASubnetIsNotStarved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--subnet-bits", "22")
	c.start()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p", `{"spec":{
		"disruption":{"consolidateAfter":"Never"},"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m5.large"]},
		{"key":"topology.kubernetes.io/zone","operator":"In","values":["us-west-2a"]},
		{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`)
	without := c.watchAddresses("default", "kube-system")
	c.apply(strings.Replace(strings.Replace(kopsNginx, "replicas: 2", "replicas: 500", 1),
		"image: nginx,", "image: nginx, resources: {requests: {cpu: 1500m}},", 1))
	// 1,019 addresses; with one warm interface a node has two of ten addresses each.
	c.eventually(4*time.Minute, func() error { return c.subnetIsFull(48, 50) })

	c.kubectl("scale", "deployment", "nginx-deployment", "--replicas=150")
	c.kubectl("set", "env", "ds", "aws-node", "-n", "kube-system", "WARM_IP_TARGET=1", "MINIMUM_IP_TARGET=2")
	c.wantPods(8*time.Minute, "default", "nginx", 150)
	seen, late := without()
	t.Logf("%d pods got nodes, of which there are %d", seen, len(c.nodes()))
	if len(late) > 0 {
		t.Errorf("of %d pods with a node %d waited for an address: %v", seen, len(late), late)
	}
}

// Nodes of EKS Auto Mode take prefixes: with a pod and a prefix to spare 33 of the 123 addresses of a /25.
func TestASubnetOfAutoModeIsNotStarved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--auto-mode", "--boot-time", "1s", "--subnet-bits", "25")
	c.start()
	c.apply(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: small}
spec:
  disruption: {consolidateAfter: Never}
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`)
	without := c.watchAddresses("default")
	c.apply(strings.NewReplacer("replicas: 2", "replicas: 8",
		"spec: {term", "spec: {nodeSelector: {karpenter.sh/nodepool: small}, term",
		"image: nginx,", "image: nginx, resources: {requests: {cpu: 1500m}},").Replace(kopsNginx))
	c.eventually(4*time.Minute, func() error { return c.subnetIsFull(3, 3) })
	if _, late := without(); len(late) > 0 {
		t.Errorf("%d pods waited for an address: %v", len(late), late)
	}
}

// subnetIsFull returns an error unless as many nodes as a subnet has addresses for run pods, and the other pods say
// what they lack.
func (c *cluster) subnetIsFull(least, most int) error {
	claims := c.claims()
	for i := range claims {
		if !claims[i].StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
			return fmt.Errorf("node %s is not initialized", claims[i].Name)
		}
	}
	if n := len(c.nodes()); n != len(claims) || n < least || n > most {
		return fmt.Errorf("%d nodes of %d claims, want %d to %d", n, len(claims), least, most)
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("default")); err != nil {
		return err
	}
	waits, bound := "", 0
	for i := range pods.Items {
		switch p := &pods.Items[i]; {
		case p.Spec.NodeName == "":
			waits = p.Name
		case p.Status.Phase != corev1.PodRunning:
			return fmt.Errorf("pod %s has a node and is %s", p.Name, p.Status.Phase)
		default:
			bound++
		}
	}
	if waits == "" || bound != len(claims) {
		return fmt.Errorf("%d pods run on %d nodes; pod %q waits", bound, len(claims), waits)
	}
	if out := c.why("pod/" + waits); !strings.Contains(out, "addresses of its subnet (m5.large)") {
		return fmt.Errorf("why does not say what the pod lacks:\n%s", out)
	}
	return nil
}
