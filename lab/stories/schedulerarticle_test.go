package stories

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Manifests of an article about kube-scheduler, as printed there. All but the first contain pods that fit no node in
// the article. The two tolerations are added to the pod of onSSD.
const (
	gated = `
apiVersion: v1
kind: Pod
metadata:
  name: test-pod
spec:
  schedulingGates:
  - name: example.com/foo
  - name: example.com/bar
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.6
`
	onSSD = `
apiVersion: v1
kind: Pod
metadata:
  name: nginx
spec:
  containers:
  - name: nginx-container
    image: nginx
  nodeSelector:
    disktype: ssd
`
	tolerateEqual = `
  tolerations:
  - key: "key1"
    operator: "Equal"
    value: "value1"
    effect: "NoSchedule"
`
	tolerateExists = `
  tolerations:
  - key: "key1"
    operator: "Exists"
    effect: "NoSchedule"
`
	besideRedis = `
apiVersion: v1
kind: Pod
metadata:
  name: pod-affinity
spec:
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector:
          matchExpressions:
          - key: app
            operator: In
            values:
            - redis
        topologyKey: "kubernetes.io/hostname"
  containers:
  - name: nginx-container
    image: nginx
`
	onNode1 = `
apiVersion: v1
kind: Pod
metadata:
  name: node-affinity
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: kubernetes.io/hostname
            operator: In
            values:
            - node1
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference:
          matchExpressions:
          - key: disktype
            operator: In
            values:
            - ssd
  containers:
  - name: nginx-container
    image: nginx
`
	withNodeName = `
apiVersion: v1
kind: Pod
metadata:
  name: nginx
spec:
  containers:
  - name: nginx-container
    image: nginx
  nodeName: node1
`
	spreadOverNodes = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: myapp
spec:
  replicas: 3
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels:
            app: nginx
      containers:
      - name: nginx
        image: nginx
`
	withOverhead = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: kata-fc
handler: kata-fc
overhead:
  podFixed:
    memory: "120Mi"
    cpu: "250m"
---
apiVersion: v1
kind: Pod
metadata:
  name: test-pod
spec:
  runtimeClassName: kata-fc
  containers:
  - name: busybox-ctr
    image: busybox:1.28
    resources:
      limits:
        cpu: 500m
        memory: 100Mi
  - name: nginx-ctr
    image: nginx
    resources:
      limits:
        cpu: 1500m
        memory: 100Mi
`
)

// An article about kube-scheduler's rules: a pod waits, with the reason, as long as a rule excludes every node, and
// gets a node if one can be launched that the rule allows.
func TestTheArticleAboutTheScheduler(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "merge", "-p",
		`{"spec":{"disruption":{"consolidateAfter":"Never"}}}`) // the article's nodes stay

	node := c.gates()

	c.apply(onSSD)
	c.waits("nginx", "disktype")
	c.kubectl("label", "nodes", node, "disktype=ssd", "environment=production")
	if at := c.runs("nginx"); at != node {
		t.Errorf("nginx runs on %s, not on %s, which has the label", at, node)
	}
	c.kubectl("delete", "pod", "nginx")
	c.kubectl("taint", "nodes", node, "key=value:NoSchedule")
	c.apply(onSSD)
	c.waits("nginx", "disktype")
	c.kubectl("taint", "nodes", node, "key=value:NoSchedule-")
	c.runs("nginx")
	c.taintIsTolerated(node)

	c.apply(besideRedis)
	c.waits("pod-affinity", "app")
	c.kubectl("run", "redis", "--image=redis", "--labels=app=redis")
	if at, redis := c.runs("pod-affinity"), c.runs("redis"); at != redis {
		t.Errorf("the pod runs on %s and redis on %s", at, redis)
	}
	c.apply(onNode1)
	c.waits("node-affinity", "node1")
	c.eventually(time.Minute, func() error {
		c.apply(withNodeName) // again, because Kubernetes soon deletes a pod whose node does not exist
		return c.pendingFor("nginx", "bound to node node1, which does not exist")
	})
	c.kubectl("delete", "pod", "nginx", "--force", "--ignore-not-found")
	c.apply(strings.Replace(withNodeName, "node1", node, 1))
	if at := c.runs("nginx"); at != node {
		t.Errorf("nginx runs on %s, not on %s, which it names", at, node)
	}

	c.apply(spreadOverNodes)
	c.wantPods(time.Minute, "default", "nginx", 3)
	counts := map[string]int{}
	for _, n := range c.nodes() {
		counts[n.Name] = 0
	}
	pods := c.podsOf("default", "app=nginx")
	for i := range pods {
		counts[pods[i].Spec.NodeName]++
	}
	if all := slices.Sorted(maps.Values(counts)); all[len(all)-1]-all[0] > 1 { // each node is a topology domain
		t.Errorf("the pods are spread over nodes as %v", counts)
	}

	c.apply(withOverhead)
	c.runs("test-pod")
	if out := c.kubectl("get", "pod", "test-pod", "-o", "jsonpath={.spec.overhead}"); out != `{"cpu":"250m","memory":"120Mi"}` {
		t.Errorf("overhead: %s", out)
	}
	least, most := resource.MustParse("2250m"), resource.Quantity{}
	for _, claim := range c.claims() {
		if cpu := claim.Spec.Resources.Requests.Cpu(); cpu.Cmp(most) > 0 {
			most = *cpu
		}
	}
	if most.Cmp(least) < 0 {
		t.Errorf("no node was launched for 2 CPUs and the overhead: the largest is for %s", &most)
	}
}

// gates creates a pod with scheduling gates, tries the changes that the article allows and forbids, and removes the
// gates. It returns the node that the pod gets.
func (c *cluster) gates() (node string) {
	c.t.Helper()
	c.apply(gated)
	c.shows("test-pod .* SchedulingGated ", "get", "pods", "test-pod")
	c.shows(`^\[{"name":"example.com/foo"},{"name":"example.com/bar"}\]$`, "get", "pod", "test-pod", "-o",
		"jsonpath={.spec.schedulingGates}")
	c.waits("test-pod", "example.com/foo")
	c.eventually(time.Minute, func() error {
		return matches(c.kubectl("get", "--raw", schedulerMetrics), `\nscheduler_pending_pods{queue="gated"} 1\n`)
	})
	if n := len(c.claims()); n != 0 {
		c.t.Errorf("%d NodeClaims for a pod that may not be scheduled", n)
	}
	const inZone = `{"spec":{"nodeSelector":{"topology.kubernetes.io/zone":"us-west-2b"}}}`
	c.kubectl("patch", "pod", "test-pod", "-p", inZone)
	for patch, want := range map[string]string{
		strings.Replace(inZone, "2b", "2c", 1):                        "only additions to spec.nodeSelector are allowed",
		`{"spec":{"schedulingGates":[{"name":"example.com/third"}]}}`: "only deletion is allowed",
	} {
		if out, err := c.run("kubectl", "patch", "pod", "test-pod", "-p", patch); err == nil || !strings.Contains(out, want) {
			c.t.Errorf("patch %s: %v\n%s\nwant %q", patch, err, out, want)
		}
	}
	c.apply(strings.Replace(gated, "  schedulingGates:\n  - name: example.com/foo\n  - name: example.com/bar\n", "", 1))
	node = c.runs("test-pod")
	c.shows("us-west-2b", "get", "node", node, "-L", "topology.kubernetes.io/zone")
	return node
}

// taintIsTolerated taints a node whose label the pod nginx selects, and checks which tolerations let the pod on it. A
// taint with effect NoExecute then evicts the pods of the node.
func (c *cluster) taintIsTolerated(node string) {
	c.t.Helper()
	again := func(toleration string) {
		c.t.Helper()
		c.kubectl("delete", "pod", "nginx")
		c.apply(onSSD + strings.TrimPrefix(toleration, "\n"))
	}
	c.kubectl("taint", "nodes", node, "key1=value1:NoSchedule")
	again(tolerateEqual)
	c.runs("nginx")
	c.kubectl("taint", "nodes", node, "key1=value2:NoSchedule", "--overwrite")
	again(tolerateEqual)
	c.waits("nginx", "disktype")
	again(tolerateExists)
	c.runs("nginx")
	c.kubectl("taint", "nodes", node, "key=value:NoExecute")
	c.kubectl("wait", "--for=delete", "pod/nginx", "pod/test-pod", "--timeout=240s")
	c.kubectl("taint", "nodes", node, "key-", "key1-")
}

// waits waits until a pod is Pending and why says what it lacks.
func (c *cluster) waits(pod, reason string) {
	c.t.Helper()
	c.eventually(time.Minute, func() error { return c.pendingFor(pod, reason) })
}

// pendingFor returns an error unless a pod is Pending and why says what it lacks.
func (c *cluster) pendingFor(pod, reason string) error {
	out, err := c.run("why", "pod", pod)
	phase, notRead := c.run("kubectl", "get", "pod", pod, "-o", "jsonpath={.status.phase}")
	if err = cmp.Or(err, notRead); err != nil || phase != "Pending" || !strings.Contains(out, reason) {
		return fmt.Errorf("%v: pod %s is %s, and why does not name %s:\n%s", err, pod, phase, reason, out)
	}
	return nil
}

// runs waits until a pod runs, and returns its node.
func (c *cluster) runs(pod string) (node string) {
	c.t.Helper()
	c.kubectl("wait", "pod", pod, "--for=jsonpath={.status.phase}=Running", "--timeout=240s")
	return c.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
}
