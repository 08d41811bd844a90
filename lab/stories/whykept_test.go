package stories

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// For each reason for which a node is kept: the answer, word for word, and when the reason ends. Then the same for a
// node that is being removed, and for one that is gone.
func TestWhyMachinesStayAndGo(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s", "--feature-gates", "StaticCapacity=true")
	c.keptMachines()
	for _, k := range whyKept {
		t.Run(k.name, func(t *testing.T) { c.as(t).keptStory(&k) })
	}
	t.Run("a pod that has its place", func(t *testing.T) {
		_, pod := c.as(t).whereIs("price")
		c.as(t).whyGolden("pod-placed", "pod/"+pod, "-n", "price")
	})
	t.Run("a pool", func(t *testing.T) { c.as(t).whyGolden("nodepool", "nodepool", "young") })
	t.Run("a machine that is not ready yet", func(t *testing.T) { c.as(t).startingStory() })
	t.Run("a machine of somebody else", func(t *testing.T) { c.as(t).strangerStory() })
	t.Run("a machine that goes", func(t *testing.T) { c.as(t).goingStory("protected") })
	t.Run("names that nobody has", func(t *testing.T) { c.as(t).misspelledStory() })
}

// whereIs returns the pod of a story and its node.
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
	said := ""
	c.eventually(2*time.Minute, func() error { // the pod's readiness decides what a PodDisruptionBudget allows
		a := c.whyJSON("node/" + node)
		if a.Verdict != "Kept" || len(a.Blockers) == 0 || a.Blockers[0].Rule != k.rule {
			return fmt.Errorf("%s: %s, %+v; want it to stay by %s", a.Verdict, a.Summary, a.Blockers, k.rule)
		}
		if !strings.Contains(a.Blockers[0].Clears, k.clears) {
			return fmt.Errorf("it clears %q, want %q", a.Blockers[0].Clears, k.clears)
		}
		// While pods come and go, something cheaper may seem to replace the node together with another.
		if said = c.why("node/" + node); strings.Contains(said, "something cheaper would replace ") {
			return fmt.Errorf("it is kept for its group's reason, not its own:\n%s", said)
		}
		return nil
	})
	wantGolden(c.t.(*testing.T), "node-"+k.name, andThenTooYoung.ReplaceAllString(said, ""))
}

// andThenTooYoung is the line about a further reason that ends with time: on a busy machine it may have ended when
// why runs.
var andThenTooYoung = regexp.MustCompile(`(?m)^ and then +its pods are .*\n`)

func (c *cluster) strangerStory() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   "stranger",
		Labels: map[string]string{"node.kubernetes.io/instance-type": "m5.large"},
	}}
	if err := c.Create(context.Background(), node); err != nil {
		c.t.Fatal(err)
	}
	if a := c.whyJSON("node", "stranger"); a.Verdict != "NotManaged" {
		c.t.Errorf("%+v", a)
	}
	c.whyGolden("node-stranger", "node/stranger")
}

// startingStory asks about a node that has a startup taint.
func (c *cluster) startingStory() {
	c.kubectl("create", "namespace", "starting")
	p := strings.Replace(pool("starting", "{consolidateAfter: Never}"), "      taints:",
		"      startupTaints: [{key: agent, value: missing, effect: NoExecute}]\n      taints:", 1)
	c.apply(p + apart("starting", "web", "1500m", 1, false))
	out := ""
	c.eventually(2*time.Minute, func() error {
		claims := c.poolClaims("starting")
		if len(claims) == 0 {
			return errors.New("no machine")
		}
		if out = c.why("nodeclaim/" + claims[0].Name); !strings.Contains(out, "Registered") ||
			!strings.Contains(out, "startup taint") {
			return errors.New(out)
		}
		return nil
	})
	wantGolden(c.t.(*testing.T), "node-starting", out)
	_, pod := c.whereIs("starting")
	c.whyGolden("pod-starting", "pod/"+pod, "-n", "starting")
}

// goingStory deletes the NodeClaim of a node with a pod that must not be disrupted: the node is being removed, and
// waits for the pod.
func (c *cluster) goingStory(name string) {
	node, pod := c.whereIs(name)
	claim := c.poolClaims(name)[0].Name
	c.kubectl("delete", "nodeclaim", claim, "--wait=false")
	for _, subject := range []string{"node/" + node, "nodeclaim/" + claim} {
		c.eventually(time.Minute, func() error {
			out := c.why(subject)
			for _, want := range []string{
				"it is being removed: its NodeClaim was deleted, by a person or another program",
				"blocked", pod + " by karpenter.sh/do-not-disrupt", pod + " is not evicted yet",
			} {
				if !strings.Contains(out, want) {
					return fmt.Errorf("%q is not said of %s:\n%s", want, subject, out)
				}
			}
			return nil
		})
	}
	c.whyGolden("node-going", "node/"+node)
	c.kubectl("-n", name, "annotate", "pod", pod, "karpenter.sh/do-not-disrupt-")
	c.eventually(2*time.Minute, func() error {
		if a := c.whyJSON("nodeclaim/" + claim); a.Verdict != "Gone" {
			return fmt.Errorf("%s: %s", a.Verdict, a.Summary)
		}
		return nil
	})
}

// misspelledStory asks for objects and options that do not exist.
func (c *cluster) misspelledStory() {
	for question, want := range map[string][]string{
		"nodepool/yuong":               {"nodepool yuong not found", "did you mean young"},
		"pod/web -n nowhere":           {"pod nowhere/web not found"},
		"service/web":                  {"unknown kind", "nodepool/NAME"},
		"deployment/web":               {"deployment default/web not found"},
		"node/n1 -o xml":               {"xml", "json", "jsonpath"},
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
