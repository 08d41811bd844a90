package stories

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// The manifests of an article about EKS Auto Mode, with another image registry and cluster name.
const (
	// kubeOpsView stands for the chart that the article installs first: a pod without node requirements.
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
	// autoGraviton holds a node class, a NodePool and the game that runs on them, with the same fields as in the
	// repository that the article clones.
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
  selector: {matchLabels: {app.kubernetes.io/name: app-2048}}
  replicas: 2
  template:
    metadata: {labels: {app.kubernetes.io/name: app-2048, app: app-2048}}
    spec:
      tolerations: [{key: "arm64", value: "true", effect: "NoSchedule"}]
      nodeSelector: {kubernetes.io/arch: arm64}
      containers: [{image: public.ecr.aws/l6m2t8p7/docker-2048:latest, name: app-2048, ports: [{containerPort: 80}]}]
`
	// officeHours is the article's challenge: no disruption on weekdays from 9 to 17, which is weekdaysFrom9 for 8 hours.
	// After that the working hours are on one day of the week, such as "30 9 * * 1".
	weekdaysFrom9 = "0 9 * * mon-fri"
	officeHours   = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: office}
spec:
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 0s
    budgets:
      - {nodes: "100%%"}
      - {nodes: "0", schedule: %q, duration: 8h}
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
	// systemPods are a controller, with the toleration and nodeSelector that EKS documents for it, and a pod without
	// the toleration.
	systemPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: kube-system}
spec:
  selector: {matchLabels: {app: controller}}
  template:
    metadata: {labels: {app: controller}}
    spec:
      tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
      nodeSelector: {karpenter.sh/nodepool: system}
      containers: [{name: controller, image: nginx}]
---
apiVersion: v1
kind: Pod
metadata: {name: intruder, labels: {app: intruder}}
spec:
  nodeSelector: {karpenter.sh/nodepool: system}
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

// An article about EKS Auto Mode, command by command, and its challenges. The test expects what the article shows of
// a real cluster.
func TestTheAutoModeArticle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--auto-mode", "--region", "ap-northeast-2", "--boot-time", "1s")
	c.start()

	c.whatAutoModeShows()
	c.apply(kubeOpsView)
	c.wantPods(time.Minute, "kube-system", "kube-ops-view", 1)
	c.eventually(time.Minute, c.everyClaimReady)
	c.firstAutoNode()
	c.viewerShowsNodes()

	c.apply(autoInflate)
	c.wantPods(time.Minute, "default", "inflate", 1)
	c.kubectl("scale", "deployment", "inflate", "--replicas", "100")
	c.wantPods(2*time.Minute, "default", "inflate", 100)
	hundred := len(c.generalPurposeNodes())
	c.kubectl("scale", "deployment", "inflate", "--replicas", "99")
	c.graviton()
	c.gameHasAnAddress()
	c.wantPods(time.Minute, "default", "inflate", 99)
	c.wantGeneralPurposeNodes("Underutilized", hundred-1)
	c.kubectl("delete", "deployment", "inflate")

	c.officeHours()
	c.systemPool()
	c.staticPool()
	c.atMost21Days()
	c.builtInsComeBack()
	c.wantGeneralPurposeNodes("Empty", 1) // the node of kube-ops-view
}

// whatAutoModeShows checks what the article lists in the new cluster.
func (c *cluster) whatAutoModeShows() {
	c.t.Helper()
	for _, crd := range []string{"nodeclasses.eks.amazonaws.com", "cninodes.eks.amazonaws.com", "nodepools.karpenter.sh"} {
		c.kubectl("get", "crd", crd)
	}
	hooks := c.kubectl("get", "mutatingwebhookconfiguration") + c.kubectl("get", "validatingwebhookconfiguration")
	c.eventually(time.Minute, func() error { // fails while the API server has not asked an aggregated API yet
		resources, err := c.run("kubectl", "api-resources", "--no-headers", "--sort-by", "name")
		return cmp.Or(err, matches(resources+hooks+c.kubectl("get", "svc,ep"),
			`cninodes +cnd +eks.amazonaws.com/v1 +false +CNINode`, `nodeclasses +eks.amazonaws.com/v1 +false +NodeClass`,
			`nodeclaims +karpenter.sh/v1 `, `nodepools +karpenter.sh/v1 `, `csinodes +storage.k8s.io/v1 `,
			`runtimeclasses +node.k8s.io/v1 `, `0500-amazon-eks-fargate-mutation.amazonaws.com +2 `,
			`service/kubernetes +ClusterIP `))
	})
	c.eventually(time.Minute, func() error {
		classes, pools := c.kubectl("get", "nodeclasses.eks.amazonaws.com"), c.kubectl("get", "nodepools")
		return matches(classes+pools, `NAME +ROLE +READY +AGE\ndefault +nodeless-node +True `,
			`NAME +NODECLASS +NODES +READY +AGE\ngeneral-purpose +default +0 +True .*\nsystem +default +0 +True `)
	})
	taints := c.kubectl("get", "nodepool", "system", "-o", "jsonpath={.spec.template.spec.taints}")
	if taints != `[{"effect":"NoSchedule","key":"CriticalAddonsOnly"}]` {
		c.t.Errorf("taints of the pool system: %s", taints)
	}
	told, err := eks.NewFromConfig(c.aws).DescribeCluster(context.Background(),
		&eks.DescribeClusterInput{Name: aws.String("nodeless")})
	if err != nil {
		c.t.Fatal(err)
	}
	if auto := told.Cluster.ComputeConfig; !*auto.Enabled || !slices.Equal(auto.NodePools, []string{"general-purpose", "system"}) ||
		!strings.HasSuffix(*auto.NodeRoleArn, ":role/nodeless-node") {
		c.t.Errorf("EKS tells of Auto Mode %+v", auto)
	}
}

// firstAutoNode checks the node of kube-ops-view.
func (c *cluster) firstAutoNode() {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		got := c.kubectl("get", "nodeclaims") + c.kubectl("get", "node", "-owide") +
			c.kubectl("get", "cninodes.eks.amazonaws.com")
		return matches(got, `general-purpose-\w+ +c5a.large +on-demand +ap-northeast-2[a-d] +i-[0-9a-f]{17} +True `,
			`NAME +STATUS +ROLES +AGE +VERSION +INTERNAL-IP +EXTERNAL-IP +OS-IMAGE +KERNEL-VERSION +CONTAINER-RUNTIME\n`+
				`i-[0-9a-f]{17} +Ready +<none> +\w+ +v1\.\d+\.\d+ +10\.[\d.]+ +<none> +`+
				`Bottlerocket \(EKS Auto\) \(simulated\) +simulated \(amd64\) +simulated://1\n`, `NAME +AGE\ni-[0-9a-f]{17} `)
	})
	if err := matches(c.kubectl("describe", "node"), `ProviderID: +aws:///ap-northeast-2[a-d]/i-[0-9a-f]{17}\n`,
		`kube-system +kube-ops-view-`, `OS Image: +Bottlerocket `); err != nil {
		c.t.Error(err)
	}
	node := c.kubectl("get", "node", "-o", "jsonpath={.items[0].metadata.labels} {.items[0].status.allocatable.pods}")
	for _, want := range []string{
		`"eks.amazonaws.com/compute-type":"auto"`, `"eks.amazonaws.com/nodeclass":"default"`,
		`"eks.amazonaws.com/instance-category":"c"`, `"eks.amazonaws.com/instance-cpu":"2"`, "} 110",
	} {
		if !strings.Contains(node, want) {
			c.t.Errorf("labels and pods of the node lack %s: %s", want, node)
		}
	}
}

// viewerShowsNodes runs top with the article's flags for eks-node-viewer, and forwards a port to the viewer that the
// article opens in a browser, whose pod is simulated here.
func (c *cluster) viewerShowsNodes() {
	c.t.Helper()
	for _, x := range []struct{ want, args string }{
		{`NODE-AGE\n`, "--node-sort=eks-node-viewer/node-cpu-usage=dsc --extra-labels eks-node-viewer/node-age"},
		{`CPU +MEMORY +PODS `, "--resources cpu,memory"},
	} {
		out, err := c.run(append([]string{"top"}, strings.Fields(x.args)...)...)
		row := `(?m)^i-[0-9a-f]{17} +general-purpose +c5a.large +od +ap-northeast-2[a-d] `
		if err = cmp.Or(err, matches(out, x.want, row)); err != nil {
			c.t.Errorf("top %s: %v\n%s", x.args, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	forward := exec.CommandContext(ctx, binary, "kubectl", "port-forward", "deployment/kube-ops-view", "-n", "kube-system",
		":8080")
	forward.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	out, err := forward.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is on a simulated node, where no container runs") {
		c.t.Errorf("port-forward: %v\n%s", err, out)
	}
}

// generalPurposeNodes returns the names of the nodes of NodePool general-purpose.
func (c *cluster) generalPurposeNodes() []string {
	c.t.Helper()
	return strings.Fields(c.kubectl("get", "nodes", "-l", "karpenter.sh/nodepool=general-purpose", "-o", "name"))
}

// wantGeneralPurposeNodes waits until the pool has the wanted number of nodes and the events give the reason for
// removing the others.
func (c *cluster) wantGeneralPurposeNodes(reason string, want int) {
	c.t.Helper()
	c.eventually(2*time.Minute, func() error {
		if nodes := c.generalPurposeNodes(); len(nodes) != want {
			return fmt.Errorf("%d nodes of the pool general-purpose, want %d", len(nodes), want)
		}
		return matches(c.kubectl("get", "events", "--sort-by", ".lastTimestamp"),
			`Nominated +pod/inflate-\S+ +Pod should schedule on: nodeclaim/general-purpose-`,
			`DisruptionTerminating +node/i-[0-9a-f]{17} +Disrupting Node: `+reason, `RemovingNode +node/i-`)
	})
}

// graviton launches the article's arm64 node for its game. While the node class names a role that does not exist, no
// node is launched.
func (c *cluster) graviton() {
	c.t.Helper()
	c.apply(strings.Replace(autoGraviton, "role: nodeless-node", "role: missing-role", 1))
	c.wantCondition("nodeclasses.eks.amazonaws.com", "graviton-nodeclass", "InstanceProfileReady", "spec.role")
	c.apply(autoGraviton)
	c.wantPods(time.Minute, "game-2048", "app-2048", 2)
	c.eventually(time.Minute, func() error {
		return matches(c.kubectl("get", "NodeClass")+c.kubectl("get", "NodePool")+c.kubectl("get", "nodeclaims"),
			`graviton-nodeclass +nodeless-node +True `, `graviton-nodepool +graviton-nodeclass +1 +True `,
			`graviton-nodepool-\w+ +\w+g\w*\.xlarge +\w+(-demand)? +ap-northeast-2[a-d] +i-[0-9a-f]{17} +True `)
	})
	got := c.kubectl("get", "nodes", "-l", "karpenter.sh/nodepool=graviton-nodepool", "-o",
		"jsonpath={.items[*].metadata.labels}")
	if err := matches(got, `"eks.amazonaws.com/nodeclass":"graviton-nodeclass"`, `"kubernetes.io/arch":"arm64"`,
		`"eks.amazonaws.com/instance-cpu":"4"`); err != nil {
		c.t.Error(err)
	}
}

// officeHours checks that an empty spot node is kept during working hours, which began an hour ago, and removed when
// they are moved to another day. Before that, a pod's do-not-disrupt annotation keeps the node.
func (c *cluster) officeHours() {
	c.t.Helper()
	began := time.Now().UTC().Add(-time.Hour)
	today, another := fmt.Sprintf("%d %d * * %d", began.Minute(), began.Hour(), began.Weekday()),
		fmt.Sprintf("%d %d * * %d", began.Minute(), began.Hour(), (began.Weekday()+3)%7)
	c.apply(fmt.Sprintf(officeHours, weekdaysFrom9))
	c.apply(fmt.Sprintf(officeHours, today))
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
	c.whyNode(node, "spec.disruption.budgets[1] (nodes: 0, schedule: "+today+" for 8h0m0s)")
	c.kubectl("patch", "nodepool", "office", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/disruption/budgets/1/schedule","value":"`+another+`"}]`)
	c.kubectl("wait", "--for=delete", "node/"+node, "--timeout=240s")
}

// whyNode waits until the output of `nodeless why node` contains a word.
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

// systemPool runs a controller on the pool for system pods, where a pod that does not tolerate the taint stays
// pending.
func (c *cluster) systemPool() {
	c.t.Helper()
	c.apply(systemPods)
	c.wantPods(time.Minute, "kube-system", "controller", 1)
	node := c.kubectl("get", "pods", "-n", "kube-system", "-l", "app=controller", "-o", "jsonpath={.items[0].spec.nodeName}")
	if pool := c.kubectl("get", "node", node, "-o", `jsonpath={.metadata.labels.karpenter\.sh/nodepool}`); pool != "system" {
		c.t.Errorf("the controller runs on a node of pool %q", pool)
	}
	c.wantEvent(time.Minute, "default", "intruder", "CriticalAddonsOnly")
	if got := c.phases("default", "intruder"); got["Pending"] != 1 {
		c.t.Errorf("the pod without the toleration: %v", got)
	}
	c.kubectl("delete", "pod", "intruder")
}

// staticPool scales a static pool with kubectl.
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

// atMost21Days checks that the API server rejects nodes that live longer than 21 days.
func (c *cluster) atMost21Days() {
	c.t.Helper()
	out, err := c.run("kubectl", "patch", "nodepool", "graviton-nodepool", "--type", "merge", "-p",
		`{"spec":{"template":{"spec":{"expireAfter":"481h"}}}}`)
	const want = "the sum of expireAfter and terminationGracePeriod (defaulted to 24h) may not exceed 21 days"
	if err == nil || !strings.Contains(out, "spec.template.spec") || !strings.Contains(out, want) {
		c.t.Errorf("got %v\n%s\nwant %q", err, out, want)
	}
}

// builtInsComeBack checks that edits of a built-in pool are reverted and that a deleted one is created again.
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

// matches returns an error for the first pattern that a text does not match.
func matches(text string, patterns ...string) error {
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			return fmt.Errorf("no match for %s in\n%s", p, text)
		}
	}
	return nil
}
