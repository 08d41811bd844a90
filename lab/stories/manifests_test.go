package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Manifests as users write them, each in a namespace of its own, all in one cluster.
func TestUserManifests(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	t.Run("web deployment with service and ingress", c.webStory)
	t.Run("half a CPU and 500Mi each", c.halfCPUStory)
	t.Run("arm64 on a pool for Graviton", c.gravitonStory)
	t.Run("tainted pool and toleration", c.taintStory)
	t.Run("job of fifty completions", c.jobStory)
	t.Run("pool limited to ten CPUs", c.limitStory)
	t.Run("daemonset adds overhead", c.daemonStory)
}

func (c *cluster) in(t testing.TB, namespace string) *cluster {
	inner := *c
	inner.t = t
	inner.kubectl("create", "namespace", namespace)
	return &inner
}

func (c *cluster) webStory(t *testing.T) {
	c = c.in(t, "web")
	c.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: nginx
        image: nginx:1.27
        ports: [{containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: 80}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: web}
spec:
  rules:
  - host: web.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`)
	c.wantPods(2*time.Minute, "web", "web", 2)
	c.eventually(time.Minute, func() error {
		if out := c.kubectl("-n", "web", "get", "endpointslices", "-o",
			"jsonpath={.items[*].endpoints[*].addresses[0]}"); len(strings.Fields(out)) != 2 {
			return fmt.Errorf("service web has endpoints %q, want two addresses", out)
		}
		return nil
	})
}

func (c *cluster) halfCPUStory(t *testing.T) {
	c = c.in(t, "half")
	c.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: half, namespace: half}
spec:
  replicas: 7
  selector: {matchLabels: {app: half}}
  template:
    metadata: {labels: {app: half}}
    spec:
      containers:
      - {name: app, image: "busybox:1.36", command: [sleep, infinity], resources: {requests: {cpu: 500m, memory: 500Mi}}}
`)
	c.wantPods(2*time.Minute, "half", "half", 7)
}

const gravitonPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: graviton}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [arm64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c7g, m7g, r7g, t4g]}
`

func (c *cluster) gravitonStory(t *testing.T) {
	c = c.in(t, "arm")
	c.apply(gravitonPool)
	c.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: arm, namespace: arm}
spec:
  replicas: 3
  selector: {matchLabels: {app: arm}}
  template:
    metadata: {labels: {app: arm}}
    spec:
      nodeSelector: {kubernetes.io/arch: arm64}
      containers:
      - {name: app, image: "nginx:1.27", resources: {requests: {cpu: "1", memory: 1Gi}}}
`)
	c.wantPods(2*time.Minute, "arm", "arm", 3)
	for node := range c.nodesOf("arm") {
		if node.Labels["kubernetes.io/arch"] != "arm64" || node.Labels[karpv1.NodePoolLabelKey] != "graviton" {
			t.Errorf("node %s: arch %s of pool %s, want arm64 of graviton", node.Name, node.Labels["kubernetes.io/arch"],
				node.Labels[karpv1.NodePoolLabelKey])
		}
	}
}

func (c *cluster) taintStory(t *testing.T) {
	c = c.in(t, "tainted")
	c.apply(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: dedicated}
spec:
  template:
    metadata: {labels: {team: data}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: dedicated, value: data, effect: NoSchedule}]
      requirements:
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: v1
kind: Pod
metadata: {name: data, namespace: tainted, labels: {app: data}}
spec:
  nodeSelector: {team: data}
  tolerations: [{key: dedicated, operator: Equal, value: data, effect: NoSchedule}]
  containers: [{name: app, image: "nginx:1.27", resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: intruder, namespace: tainted, labels: {app: intruder}}
spec:
  nodeSelector: {team: data}
  containers: [{name: app, image: "nginx:1.27"}]
`)
	c.wantPods(2*time.Minute, "tainted", "data", 1)
	c.eventually(time.Minute, func() error { // a node that was NotReady for a moment keeps a taint for some seconds
		for node := range c.nodesOf("tainted") {
			if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "dedicated" {
				return fmt.Errorf("node %s has taints %v, want dedicated alone", node.Name, node.Spec.Taints)
			}
		}
		return nil
	})
	c.wantEvent(time.Minute, "tainted", "intruder", "dedicated")
	c.kubectl("delete", "namespace", "tainted", "--wait=false")
}

func (c *cluster) jobStory(t *testing.T) {
	c = c.in(t, "batch")
	c.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: fifty, namespace: batch}
spec:
  completions: 50
  parallelism: 10
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: "busybox:1.36", command: [sh, -c, "sleep 1"], resources: {requests: {cpu: 250m}}}]
`)
	c.kubectl("wait", "--for=condition=Complete", "job/fifty", "-n", "batch", "--timeout="+patience.String())
	var job batchv1.Job
	if err := c.Get(context.Background(), types.NamespacedName{Namespace: "batch", Name: "fifty"}, &job); err != nil {
		t.Fatal(err)
	}
	if job.Status.Succeeded != 50 || job.Status.CompletionTime == nil {
		t.Errorf("job: %d of 50 succeeded, %d active, %d failed", job.Status.Succeeded, job.Status.Active, job.Status.Failed)
	}
}

func (c *cluster) limitStory(t *testing.T) {
	c = c.in(t, "limited")
	c.apply(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: small}
spec:
  limits: {cpu: "10"}
  template:
    metadata: {labels: {pool: small}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: greedy, namespace: limited}
spec:
  replicas: 20
  selector: {matchLabels: {app: greedy}}
  template:
    metadata: {labels: {app: greedy}}
    spec:
      nodeSelector: {pool: small}
      containers: [{name: app, image: "nginx:1.27", resources: {requests: {cpu: "1"}}}]
`)
	var most int64
	c.eventually(2*time.Minute, func() error {
		most = max(most, c.poolCPU("small"))
		if n := c.phases("limited", "greedy")["Running"]; n < 5 {
			return fmt.Errorf("%d pods of the limited pool run, want some", n)
		}
		return nil
	})
	c.wantEvent(time.Minute, "limited", "greedy", "limit")
	most = max(most, c.poolCPU("small"))
	if most > 10 {
		t.Errorf("pool small reached %d CPUs, limit is 10", most)
	}
	if n := c.phases("limited", "greedy")["Running"]; n > 10 {
		t.Errorf("%d pods of one CPU run under a limit of 10 CPUs", n)
	}
}

// poolCPU is the sum of the CPUs of a pool's NodeClaims, from their status.
func (c *cluster) poolCPU(pool string) int64 {
	var total int64
	for _, claim := range c.claims() {
		if claim.Labels[karpv1.NodePoolLabelKey] == pool {
			cpu := claim.Status.Capacity[corev1.ResourceCPU]
			total += cpu.Value()
		}
	}
	return total
}

func (c *cluster) daemonStory(t *testing.T) {
	c = c.in(t, "agents")
	c.apply(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: agents}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {pool: daemons}
      containers: [{name: agent, image: "fluent/fluent-bit:3", resources: {requests: {cpu: 300m, memory: 256Mi}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: daemons}
spec:
  template:
    metadata: {labels: {pool: daemons}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
`)
	// 1.7 of an m5.large's 1.93 CPUs: alone the pod would fit, but with the agent's 0.3 it needs the next size.
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: agents, labels: {app: app}}
spec:
  nodeSelector: {pool: daemons}
  containers: [{name: app, image: "nginx:1.27", resources: {requests: {cpu: 1700m}}}]
`)
	c.wantPods(2*time.Minute, "agents", "app", 1)
	c.eventually(time.Minute, func() error {
		if got := c.phases("agents", "agent"); got["Running"] != 1 || len(got) != 1 {
			return fmt.Errorf("agents by phase: %v, want one Running", got)
		}
		return nil
	})
	for node := range c.nodesOf("agents") {
		if got := node.Labels[corev1.LabelInstanceTypeStable]; got != "m5.xlarge" {
			t.Errorf("pod and agent run on %s, want m5.xlarge", got)
		}
	}
}

// nodesOf yields the nodes that the pods of a namespace run on.
func (c *cluster) nodesOf(namespace string) func(yield func(corev1.Node) bool) {
	return func(yield func(corev1.Node) bool) {
		var pods corev1.PodList
		if err := c.List(context.Background(), &pods, client.InNamespace(namespace)); err != nil {
			c.t.Fatal(err)
		}
		used := map[string]bool{}
		for _, p := range pods.Items {
			used[p.Spec.NodeName] = true
		}
		for _, n := range c.nodes() {
			if used[n.Name] && !yield(n) {
				return
			}
		}
	}
}

// wantEvent waits until an event that is not kube-scheduler's, about a pod with this name prefix, mentions a word.
func (c *cluster) wantEvent(within time.Duration, namespace, pod, word string) {
	c.t.Helper()
	c.eventually(within, func() error {
		var events corev1.EventList
		if err := c.List(context.Background(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind != "Pod" || !strings.HasPrefix(e.InvolvedObject.Name, pod) ||
				e.Source.Component == "default-scheduler" || e.ReportingController == "default-scheduler" {
				continue
			}
			if strings.Contains(e.Message, word) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event on pod %s/%s that says %q; there are %q", namespace, pod, word, seen)
	})
}
