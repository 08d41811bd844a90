package stories

import (
	"fmt"
	"strings"
	"time"
)

// kept is a node that is not removed, in a pool and a namespace of that name.
type kept struct {
	name        string
	disruption  string // of the pool
	annotations string // of the pool
	replicas    bool   // it is a static pool of one node
	spot        bool
	types       string // of the pool; default m5.large
	ballast     string // requests of a pod for which the node was launched, and which has been deleted since
	cpu         string // of the pod that stays; default 1500m
	job         bool   // the pod is a Job's
	also        string
	rule        string // of the first blocker
	clears      string // when it stops blocking
	before      func(c *cluster, node, pod string)
}

// dearMachine is launched as an m5.2xlarge, for the ballast's memory. Afterwards a c5.2xlarge would do, which saves a
// tenth.
const dearMachine, dearBallast, dearCPU = "m5.2xlarge, c5.2xlarge", "1000m, memory: 20Gi", "5000m"

var whyKept = []kept{
	// These two end by themselves after some minutes, so they are the first to be asked about.
	{
		name: "payback", disruption: "{consolidateAfter: 0s}", types: dearMachine, ballast: dearBallast, cpu: dearCPU,
		rule: "Payback", clears: "at ",
	},
	{
		name: "job", disruption: "{consolidateAfter: 0s}", annotations: `nodeless.sh/wait-for-jobs: "true"`,
		types: dearMachine, ballast: dearBallast, cpu: dearCPU,
		job: true, rule: "Job", clears: "when that pod has ended",
	},
	{
		name: "protected", disruption: "{consolidateAfter: 0s}", rule: "DoNotDisrupt",
		clears: "when annotation karpenter.sh/do-not-disrupt is removed",
		before: func(c *cluster, _, pod string) {
			c.kubectl("-n", "protected", "annotate", "pod", pod, "karpenter.sh/do-not-disrupt=true")
		},
	},
	{
		name: "held", disruption: "{consolidateAfter: 0s}", rule: "Held", clears: "PodDisruptionBudget changes", also: `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: held}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
`,
	},
	{
		name: "budget", disruption: "{consolidateAfter: 0s, budgets: [{nodes: '0'}]}", rule: "Budget",
		clears: "the budget allows more",
	},
	{name: "schedule", disruption: "{consolidateAfter: 0s, budgets: [{nodes: '0', schedule: '@daily', duration: 24h}]}", rule: "Budget", clears: "a budget schedule starts or ends at "},
	{name: "young", disruption: "{consolidateAfter: 1h}", rule: "TooYoung", clears: "at "},
	{name: "never", disruption: "{consolidateAfter: Never}", rule: "Never", clears: "when NodePool never is changed"},
	{
		name: "when-empty", disruption: "{consolidationPolicy: WhenEmpty, consolidateAfter: 0s}", rule: "WhenEmpty",
		clears: "when NodePool when-empty is changed",
	},
	{name: "price", disruption: "{consolidateAfter: 0s}", rule: "NotCheaper", clears: "when pods, nodes or prices change"},
	{
		name: "window", disruption: "{consolidateAfter: 0s}",
		annotations: `nodeless.sh/disruption-windows: "0 3 1 1 * 10m"`, rule: "Window", clears: "at ",
	},
	{
		name: "saving", disruption: "{consolidateAfter: 0s}", annotations: `nodeless.sh/minimum-saving: "1"`,
		rule: "SmallSaving", clears: "when NodePool saving is changed",
	},
	{
		name: "unclear", disruption: "{consolidateAfter: 0s}", annotations: "nodeless.sh/minimum-saving: lots",
		rule: "Unclear", clears: "when NodePool unclear is changed",
	},
	{
		name: "annotated", disruption: "{consolidateAfter: 0s}", rule: "DoNotDisrupt", clears: "is removed from the node",
		before: func(c *cluster, node, _ string) {
			c.kubectl("annotate", "node", node, "karpenter.sh/do-not-disrupt=true")
		},
	},
	{
		name: "static", disruption: "{consolidateAfter: 0s}", replicas: true, rule: "Static",
		clears: "when spec.replicas of NodePool static is lowered",
	},
	{
		name: "balanced", disruption: "{consolidationPolicy: Balanced, consolidateAfter: 0s}", types: dearMachine,
		ballast: dearBallast, cpu: dearCPU,
		rule: "Balanced", clears: "when NodePool balanced is changed",
	},
	{
		name: "spot-to-spot", disruption: "{consolidateAfter: 0s}", spot: true, types: "m5.large, m5.2xlarge",
		ballast: "5000m",
		rule:    "SpotToSpot", clears: "when feature gate SpotToSpotConsolidation is on",
	},
	{
		name: "no-place", disruption: "{consolidateAfter: 0s}", rule: "NoPlace", clears: "when pods, nodes or prices change",
		before: func(c *cluster, node, _ string) {
			c.kubectl("label", "node", node, "disk=fast")
			c.apply(strings.Replace(apart("no-place", "fast", "100m", 1, false), "nodeSelector: {",
				"nodeSelector: {disk: fast, ", 1))
			c.wantPods(time.Minute, "no-place", "fast", 1)
		},
	},
}

// pool returns the node's NodePool.
func (k *kept) pool() string {
	out := strings.Replace(pool(k.name, k.disruption), "{name: "+k.name+"}",
		fmt.Sprintf("{name: %s, annotations: {%s}}", k.name, k.annotations), 1)
	if k.types != "" {
		out = strings.Replace(out, "[m5.large]", "["+k.types+"]", 1)
	}
	if k.spot {
		out = strings.Replace(out, "[on-demand]", "[spot]", 1)
	}
	if k.replicas {
		out = strings.Replace(out, "spec:\n", "spec:\n  replicas: 1\n", 1)
	}
	return out
}

// web returns what runs on it.
func (k *kept) web() string {
	cpu := k.cpu
	if cpu == "" {
		cpu = "1500m"
	}
	if !k.job {
		return apart(k.name, "web", cpu, 1, false) + k.also + "---\n"
	}
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: web, namespace: %[1]s}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      activeDeadlineSeconds: 500
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      tolerations: [{key: pool, value: %[1]s, effect: NoSchedule}]
      containers: [{name: c, image: pause, command: [sleep, "1000"], resources: {requests: {cpu: %[2]s}}}]
---
`, k.name, cpu)
}

// keptMachines creates all of them: first the pools, with the ballast of those that have one, which is deleted
// afterwards.
func (c *cluster) keptMachines() {
	first, then := "", ""
	for _, k := range whyKept {
		first += fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---", k.name) + k.pool()
		if k.ballast == "" {
			first += k.web()
		} else {
			first += apart(k.name, "ballast", k.ballast, 1, false)
			then += k.web()
		}
	}
	c.apply(first)
	for _, k := range whyKept {
		if k.ballast != "" {
			c.wantPods(2*time.Minute, k.name, "ballast", 1)
		}
	}
	c.apply(then)
	for _, k := range whyKept {
		c.wantPods(2*time.Minute, k.name, "web", 1)
		if k.ballast != "" {
			c.kubectl("-n", k.name, "delete", "deployment", "ballast", "--wait=false")
		}
	}
	for _, k := range whyKept {
		c.wantPods(time.Minute, k.name, "ballast", 0)
	}
}
