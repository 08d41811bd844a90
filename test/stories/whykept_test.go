package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept is a machine that stays, in a pool and a namespace of its own of that name.
type kept struct {
	name        string
	disruption  string // of the pool
	annotations string // of the pool
	also        string
	rule        string // of the first blocker
	clears      string // how it does
	before      func(c *cluster, node, pod string)
}

var whyKept = []kept{
	{
		name: "protected", disruption: "{consolidateAfter: 0s}", rule: "DoNotDisrupt", clears: "when annotation karpenter.sh/do-not-disrupt is taken away",
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
	{name: "budget", disruption: "{consolidateAfter: 0s, budgets: [{nodes: '0'}]}", rule: "Budget", clears: "the budget allows more"},
	{name: "young", disruption: "{consolidateAfter: 1h}", rule: "TooYoung", clears: "at "},
	{name: "never", disruption: "{consolidateAfter: Never}", rule: "Never", clears: "when NodePool never says otherwise"},
	{name: "when-empty", disruption: "{consolidationPolicy: WhenEmpty, consolidateAfter: 0s}", rule: "WhenEmpty", clears: "when NodePool when-empty says otherwise"},
	{name: "price", disruption: "{consolidateAfter: 0s}", rule: "NotCheaper", clears: "when prices"},
	{name: "window", disruption: "{consolidateAfter: 0s}", annotations: `nodeless.sh/disruption-windows: "0 3 1 1 * 10m"`, rule: "Window", clears: "at "},
	{name: "saving", disruption: "{consolidateAfter: 0s}", annotations: `nodeless.sh/minimum-saving: "1"`, rule: "SmallSaving", clears: "when NodePool saving says otherwise"},
	{name: "unclear", disruption: "{consolidateAfter: 0s}", annotations: "nodeless.sh/minimum-saving: lots", rule: "Unclear", clears: "when NodePool unclear says otherwise"},
	{
		name: "annotated", disruption: "{consolidateAfter: 0s}", rule: "DoNotDisrupt", clears: "is taken off the node",
		before: func(c *cluster, node, _ string) {
			c.kubectl("annotate", "node", node, "karpenter.sh/do-not-disrupt=true")
		},
	},
}

// For each reason for which a machine is kept: what is said, word by word, and when it clears; then of one that goes, and of one
// that is gone.
func TestWhyMachinesStayAndGo(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s")
	for _, k := range whyKept {
		c.kubectl("create", "namespace", k.name)
		manifest := strings.Replace(pool(k.name, k.disruption), "{name: "+k.name+"}", fmt.Sprintf("{name: %s, annotations: {%s}}", k.name, k.annotations), 1)
		c.apply(manifest + apart(k.name, "web", "1500m", 1, false) + k.also)
	}
	for _, k := range whyKept {
		c.wantPods(90*time.Second, k.name, "web", 1)
	}
	for _, k := range whyKept {
		t.Run(k.name, func(t *testing.T) { c.as(t).keptStory(&k) })
	}
	t.Run("a pod that has its place", func(t *testing.T) {
		_, pod := c.as(t).whereIs("price")
		out := c.as(t).why("pod/"+pod, "-n", "price")
		for _, want := range []string{"it is on ", "the machine was launched for pods that waited then", "$0.096/h, pool price", "Deployment web"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not said:\n%s", want, out)
			}
		}
	})
	t.Run("a pool", func(t *testing.T) { wantGolden(t, "nodepool", c.as(t).why("nodepool", "young")) })
	t.Run("a machine of somebody else", func(t *testing.T) { c.as(t).strangerStory() })
	t.Run("a machine that goes", func(t *testing.T) { c.as(t).goingStory("protected") })
	t.Run("names that nobody has", func(t *testing.T) { c.as(t).misspelledStory() })
}

// whereIs is the pod of a story and its node.
func (c *cluster) whereIs(namespace string) (node, pod string) {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) == 0 {
		c.t.Fatalf("no pod in %s: %v", namespace, err)
	}
	return pods.Items[0].Spec.NodeName, pods.Items[0].Name
}

func (c *cluster) keptStory(k *kept) {
	node, pod := c.whereIs(k.name)
	if k.before != nil {
		k.before(c, node, pod)
	}
	c.eventually(30*time.Second, func() error { // the pod's readiness decides what a PodDisruptionBudget allows
		a := c.whyJSON("node/" + node)
		if a.Verdict != "Stays" || len(a.Blockers) == 0 || a.Blockers[0].Rule != k.rule {
			return fmt.Errorf("%s: %s, %+v; want it to stay by %s", a.Verdict, a.Summary, a.Blockers, k.rule)
		}
		if !strings.Contains(a.Blockers[0].Clears, k.clears) {
			return fmt.Errorf("it clears %q, want %q", a.Blockers[0].Clears, k.clears)
		}
		return nil
	})
	wantGolden(c.t.(*testing.T), "node-"+k.name, strings.ReplaceAll(c.why("node/"+node), pod, "web"))
}

func (c *cluster) strangerStory() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large"}}}
	if err := c.Create(context.Background(), node); err != nil {
		c.t.Fatal(err)
	}
	if a := c.whyJSON("node", "stranger"); a.Verdict != "NotOurs" {
		c.t.Errorf("%+v", a)
	}
}

// goingStory deletes a NodeClaim on whose machine a pod must not be disrupted: it goes, and waits for it.
func (c *cluster) goingStory(name string) {
	node, pod := c.whereIs(name)
	claim := c.poolClaims(name)[0].Name
	c.kubectl("delete", "nodeclaim", claim, "--wait=false")
	for _, subject := range []string{"node/" + node, "nodeclaim/" + claim} {
		c.eventually(20*time.Second, func() error {
			out := c.why(subject)
			for _, want := range []string{"it goes: its NodeClaim was deleted, by hand or by another program", "held up", pod + " by karpenter.sh/do-not-disrupt"} {
				if !strings.Contains(out, want) {
					return fmt.Errorf("%q is not said of %s:\n%s", want, subject, out)
				}
			}
			return nil
		})
	}
	c.kubectl("-n", name, "annotate", "pod", pod, "karpenter.sh/do-not-disrupt-")
	c.eventually(60*time.Second, func() error {
		if a := c.whyJSON("nodeclaim/" + claim); a.Verdict != "Gone" {
			return fmt.Errorf("%s: %s", a.Verdict, a.Summary)
		}
		return nil
	})
}

// misspelledStory asks for what is not there.
func (c *cluster) misspelledStory() {
	for question, want := range map[string][]string{
		"nodepool/yuong":               {"there is no nodepool yuong", "near it: young"},
		"pod/web -n nowhere":           {"there is no pod nowhere/web"},
		"deployment/web":               {"unknown kind", "nodepool/NAME"},
		"node/n1 -o xml":               {"-o xml", "json"},
		"node/n1 --prices cheap":       {"--prices", "built-in"},
		"node/n1 --context nowhere":    {"nowhere", "--context"},
		"node/n1 --kubeconfig /no/one": {"/no/one", "--kubeconfig"},
	} {
		out, err := c.run(append([]string{"why"}, strings.Fields(question)...)...)
		for _, w := range want {
			if err == nil || !strings.Contains(out, w) {
				c.t.Errorf("why %s: %v, %q; want an error that says %q", question, err, out, w)
			}
		}
	}
}
