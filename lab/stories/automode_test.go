package stories

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Manifests of an article about EKS Auto Mode, but for the image registry and the cluster's name.
const (
	// kubeOpsView stands for the chart that the article installs first: a pod that asks for no particular node.
	kubeOpsView = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-ops-view, namespace: kube-system}
spec:
  selector: {matchLabels: {app: kube-ops-view}}
  template:
    metadata: {labels: {app: kube-ops-view}}
    spec: {containers: [{name: kube-ops-view, image: hjacobs/kube-ops-view}]}
`
	autoInflate = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: inflate
spec:
  replicas: 1
  selector:
    matchLabels:
      app: inflate
  template:
    metadata:
      labels:
        app: inflate
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector:
        eks.amazonaws.com/compute-type: auto
      securityContext:
        runAsUser: 1000
        runAsGroup: 3000
        fsGroup: 2000
      containers:
        - name: inflate
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
          resources:
            requests:
              cpu: 1
          securityContext:
            allowPrivilegeEscalation: false
`
	// autoGraviton and the game on it, in the fields of the repository that the article clones.
	autoGraviton = `
apiVersion: eks.amazonaws.com/v1
kind: NodeClass
metadata: {name: graviton-nodeclass}
spec:
  role: nodeless-node
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: "nodeless"}}]
  securityGroupSelectorTerms: [{tags: {aws:eks:cluster-name: nodeless}}]
  tags: {karpenter.sh/discovery: "nodeless"}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: graviton-nodepool}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: graviton-nodeclass}
      requirements:
        - {key: "eks.amazonaws.com/instance-category", operator: In, values: ["c", "m", "r"]}
        - {key: "eks.amazonaws.com/instance-cpu", operator: In, values: ["4", "8", "16", "32"]}
        - {key: "kubernetes.io/arch", operator: In, values: ["arm64"]}
      taints: [{key: "arm64", value: "true", effect: "NoSchedule"}]
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
---
apiVersion: v1
kind: Namespace
metadata: {name: game-2048}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: game-2048, name: deployment-2048}
spec:
  selector: {matchLabels: {app: app-2048}}
  replicas: 2
  template:
    metadata: {labels: {app: app-2048}}
    spec:
      tolerations: [{key: "arm64", value: "true", effect: "NoSchedule"}]
      nodeSelector: {kubernetes.io/arch: arm64}
      containers: [{image: public.ecr.aws/l6m2t8p7/docker-2048:latest, name: app-2048, ports: [{containerPort: 80}]}]
`
	// officeHours is the article's challenge: no disruption on weekdays from 9 to 17. Its last budget is always active, so
	// that the story does not depend on the day.
	officeHours = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: office}
spec:
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 0s
    budgets:
      - {nodes: "100%"}
      - {nodes: "0", schedule: "0 9 * * mon-fri", duration: 8h}
      - {nodes: "0", schedule: "@daily", duration: 24h}
  template:
    metadata: {labels: {team: office}}
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
        - {key: eks.amazonaws.com/instance-family, operator: In, values: [m5, c5]}
---
apiVersion: v1
kind: Pod
metadata: {name: office, labels: {app: office}}
spec:
  nodeSelector: {team: office}
  containers: [{name: c, image: nginx}]
`
	staticPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: static}
spec:
  replicas: 1
  template:
    metadata: {labels: {team: static}}
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [m]}]
      taints: [{key: static, effect: NoSchedule}]
`
)

// An article about EKS Auto Mode, command by command, and its challenges: what it shows of a real cluster is what is
// expected here.
func TestTheAutoModeArticle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--auto-mode", "--region", "ap-northeast-2", "--boot-time", "1s")
	c.start()

	for _, crd := range []string{"nodeclasses.eks.amazonaws.com", "cninodes.eks.amazonaws.com", "nodepools.karpenter.sh"} {
		c.kubectl("get", "crd", crd)
	}
	c.eventually(time.Minute, func() error {
		classes, pools := c.kubectl("get", "nodeclasses.eks.amazonaws.com"), c.kubectl("get", "nodepools")
		return matches(classes+pools, `NAME +ROLE +READY +AGE\ndefault +nodeless-node +True `,
			`NAME +NODECLASS +NODES +READY +AGE\ngeneral-purpose +default +0 +True .*\nsystem +default +0 +True `)
	})
	taints := c.kubectl("get", "nodepool", "system", "-o", "jsonpath={.spec.template.spec.taints}")
	if taints != `[{"effect":"NoSchedule","key":"CriticalAddonsOnly"}]` {
		t.Errorf("taints of the pool system: %s", taints)
	}

	c.apply(kubeOpsView)
	c.wantPods(time.Minute, "kube-system", "kube-ops-view", 1)
	c.eventually(time.Minute, c.everyClaimReady)
	c.eventually(time.Minute, func() error {
		got := c.kubectl("get", "nodeclaims") + c.kubectl("get", "node", "-owide") +
			c.kubectl("get", "cninodes.eks.amazonaws.com")
		return matches(got, `general-purpose-\w+ +c5a.large +on-demand +ap-northeast-2[a-d] +i-[0-9a-f]{17} +True `,
			`i-[0-9a-f]{17} +Ready .* Bottlerocket \(EKS Auto\)`, `NAME +AGE\ni-[0-9a-f]{17} `)
	})
	node := c.kubectl("get", "node", "-o", "jsonpath={.items[0].metadata.labels} {.items[0].status.allocatable.pods}")
	for _, want := range []string{
		`"eks.amazonaws.com/compute-type":"auto"`, `"eks.amazonaws.com/nodeclass":"default"`,
		`"eks.amazonaws.com/instance-category":"c"`, `"eks.amazonaws.com/instance-cpu":"2"`, "} 110",
	} {
		if !strings.Contains(node, want) {
			t.Errorf("labels and pods of the node lack %s: %s", want, node)
		}
	}

	c.apply(autoInflate)
	c.wantPods(time.Minute, "default", "inflate", 1)
	c.kubectl("scale", "deployment", "inflate", "--replicas", "100")
	c.wantPods(2*time.Minute, "default", "inflate", 100)
	c.kubectl("scale", "deployment", "inflate", "--replicas", "99")
	c.wantPods(time.Minute, "default", "inflate", 99)
	c.kubectl("delete", "deployment", "inflate")

	c.graviton()
	c.officeHours()
	c.staticPool()
	c.atMost21Days()
	c.builtInsComeBack()
}

// graviton launches the article's arm64 node for its game.
func (c *cluster) graviton() {
	c.t.Helper()
	c.apply(autoGraviton)
	c.wantPods(time.Minute, "game-2048", "app-2048", 2)
	got := c.kubectl("get", "nodes", "-l", "karpenter.sh/nodepool=graviton-nodepool", "-o",
		"jsonpath={.items[*].metadata.labels}")
	if err := matches(got, `"eks.amazonaws.com/nodeclass":"graviton-nodeclass"`, `"kubernetes.io/arch":"arm64"`,
		`"eks.amazonaws.com/instance-cpu":"4"`); err != nil {
		c.t.Error(err)
	}
}

// officeHours keeps an empty spot node while its pool's budget is zero, and removes it afterwards; before, the
// annotation of a pod keeps it.
func (c *cluster) officeHours() {
	c.t.Helper()
	c.apply(officeHours)
	c.wantPods(time.Minute, "default", "office", 1)
	got := c.kubectl("get", "nodes", "-l", "team=office", "-o",
		`jsonpath={.items[*].metadata.labels['karpenter\.sh/capacity-type']} {.items[*].metadata.name}`)
	kind, node, _ := strings.Cut(got, " ")
	if kind != "spot" {
		c.t.Errorf("the node's capacity type is %q", kind)
	}
	c.kubectl("annotate", "pod", "office", "karpenter.sh/do-not-disrupt=true")
	c.whyNode(node, "do-not-disrupt")
	c.kubectl("delete", "pod", "office", "--now")
	c.whyNode(node, "budget")
	c.kubectl("patch", "nodepool", "office", "--type", "merge", "-p", `{"spec":{"disruption":{"budgets":[{"nodes":"100%"}]}}}`)
	c.kubectl("wait", "--for=delete", "node/"+node, "--timeout=90s")
}

// whyNode waits until `nodeless why node` says a word.
func (c *cluster) whyNode(node, word string) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		out, err := c.run("why", "node", node)
		if err == nil && !strings.Contains(out, word) {
			err = fmt.Errorf("why node %s does not speak of %s:\n%s", node, word, out)
		}
		return err
	})
}

// staticPool is scaled by kubectl.
func (c *cluster) staticPool() {
	c.t.Helper()
	c.apply(staticPool)
	for _, replicas := range []int{1, 2} {
		c.kubectl("scale", "nodepool", "static", "--replicas", fmt.Sprint(replicas))
		c.eventually(time.Minute, func() error {
			got := c.kubectl("get", "nodes", "-l", "team=static", "-o", "name")
			if n := strings.Count(got, "node/"); n != replicas {
				return fmt.Errorf("%d nodes of the static pool, want %d", n, replicas)
			}
			return nil
		})
	}
}

// atMost21Days is what the API server says of nodes that live longer.
func (c *cluster) atMost21Days() {
	c.t.Helper()
	out, err := c.run("kubectl", "patch", "nodepool", "graviton-nodepool", "--type", "merge", "-p",
		`{"spec":{"template":{"spec":{"expireAfter":"481h"}}}}`)
	const want = "the sum of expireAfter and terminationGracePeriod (defaulted to 24h) may not exceed 21 days"
	if err == nil || !strings.Contains(out, "spec.template.spec") || !strings.Contains(out, want) {
		c.t.Errorf("got %v\n%s\nwant %q", err, out, want)
	}
}

// builtInsComeBack: edits are reverted, and what was deleted is created again.
func (c *cluster) builtInsComeBack() {
	c.t.Helper()
	c.kubectl("patch", "nodepool", "system", "--type", "merge", "-p", `{"spec":{"weight":50}}`)
	c.wantEvents("involvedObject.name=system,reason=Reverted", "create a NodePool of your own")
	c.kubectl("delete", "nodepool", "system")
	c.eventually(time.Minute, func() error {
		out, err := c.run("kubectl", "get", "nodepool", "system", "-o", "jsonpath={.spec.weight}{.status.conditions[0].type}")
		if err == nil && strings.HasPrefix(out, "50") {
			err = fmt.Errorf("the edit is still there")
		}
		return err
	})
}

// matches returns the first pattern that a text does not match.
func matches(text string, patterns ...string) error {
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			return fmt.Errorf("no match for %s in\n%s", p, text)
		}
	}
	return nil
}
