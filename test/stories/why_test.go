package stories

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// varying are the parts of an answer that differ from run to run, and what stands for them in golden files.
var varying = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\bip-\d+-\d+-\d+-\d+[.a-z0-9-]*`), "NODE"},
	{regexp.MustCompile(`\b([a-z][a-z-]*)-[0-9a-f]{10}\b`), "$1-CLAIM"},
	{regexp.MustCompile(`\b[0-9a-f]{12},`), "COMMAND,"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b(for|after|in|about) (\d+[dhms])+\b`), "$1 AGE"},
	{regexp.MustCompile(`\b(\d+[dhms])+ (ago|old|after)\b`), "AGE $2"},
	{regexp.MustCompile(`are (\d+[dhms])+ old and may be gone before what their moves cost is saved again, in (\d+[dhms])+`), "are AGE old and may be gone before what their moves cost is saved again, in AGE"},
	{regexp.MustCompile(`us-west-2[a-d]\b`), "ZONE"},
}

// scrubbed is an answer without what differs from run to run: events, what was decided lately, what kube-scheduler says, how many
// machines there are.
func scrubbed(text string) string {
	var out []string
	dropped := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, " event ") || strings.HasPrefix(line, " decided ") || strings.HasPrefix(line, " kube-scheduler ") || strings.HasPrefix(line, " existing nodes "):
			dropped = true
			continue
		case dropped && strings.HasPrefix(line, "  "): // goes on with what was dropped
			continue
		}
		dropped = false
		for _, v := range varying {
			line = v.part.ReplaceAllString(line, v.by)
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.Join(out, "\n") + "\n"
}

// why asks, and fails the test if there is no answer.
func (c *cluster) why(args ...string) string {
	c.t.Helper()
	out, err := c.run(append([]string{"why"}, args...)...)
	if err != nil {
		c.t.Fatalf("why %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// wantGolden compares an answer with testdata/why/NAME.txt.
func wantGolden(t *testing.T, name, answer string) {
	t.Helper()
	path, got := filepath.Join("testdata", "why", name+".txt"), scrubbed(answer)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with: go test ./test/stories -run TestWhy -update", err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// whyPools are the pools that the pods meet, each with what makes it refuse.
const whyPools = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 9
  template:
    metadata: {labels: {team: gpu}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: gpu, value: "true", effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: limited}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 8
  limits: {cpu: "2"}
  template:
    metadata: {labels: {team: limited}}
    spec:
      taints: [{key: limited, effect: NoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: none}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 7
  limits: {nodes: "0"}
  template:
    metadata: {labels: {team: none}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: diverse}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 6
  template:
    metadata: {labels: {team: diverse}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5, none], minValues: 3}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: unready}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 5
  template:
    metadata: {labels: {team: unready}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: unready}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: zonal}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 4
  template:
    metadata: {labels: {team: zonal}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
`

// waiting is a pod that nothing can take.
type waiting struct {
	name  string
	pool  string // that it wants; "" = any
	spec  string // lines of its spec beside the container
	ask   string // requests; default cpu: 500m
	ports string
	also  string // further manifests
	// rule is the one in the way, change what the smallest change that helps says, "" if there is none.
	rule, change string
	// fixed are the lines of the spec after the change was made to the pod, TO being its value; fix makes it elsewhere.
	fixed string
	fix   func(c *cluster)
}

// manifest is the pod with these lines in its spec, or asking for that instead.
func (w *waiting) manifest(spec, ask string) string {
	if ask == "" {
		ask = "cpu: 500m"
	}
	if w.pool != "" {
		spec = strings.TrimSpace(spec + "\nnodeSelector: {karpenter.sh/nodepool: " + w.pool + "}")
	}
	limits := ""
	if strings.Contains(ask, "example.com/") {
		limits = ", limits: {" + ask + "}"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: waiting, labels: {app: %[1]s}, annotations: {karpenter.sh/do-not-disrupt: "true"}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: nginx, ports: [%[2]s], resources: {requests: {%[3]s}%[4]s}}]
  %[5]s
`, w.name, w.ports, ask, limits, strings.ReplaceAll(spec, "\n", "\n  "))
}

// answerOf is what `why -o json` says, as far as the tests look at it.
type answerOf struct {
	Verdict, Summary string
	Reason           struct{ Pools []struct{ Pool, Rule string } }
	Change           struct{ Rule, Object, To string }
	Blockers         []struct{ Rule, Text, Clears string }
}

func (c *cluster) whyJSON(args ...string) (a answerOf) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.why(append(args, "-o", "json")...)), &a); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// For each rule that can keep a pod from a machine: what is said, word by word, and that the change which is named, made, places
// the pod.
func TestWhyPodsWait(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s").in(t, "waiting")
	c.apply(whyPools + "---" + badClass("unready", "al2023@latest", "no-such-cluster"))
	c.wantCondition("nodepool", "unready", "NodeClassReady", "subnetSelectorTerms")
	first, others := &whyWaiting[0], whyWaiting[1:]
	c.apply(first.manifest(first.spec, first.ask)) // alone, or the one that wants to be without it takes its machine
	c.wantPods(60*time.Second, "waiting", first.name, 1)
	var manifests []string
	for _, w := range others {
		manifests = append(manifests, w.manifest(w.spec, w.ask))
		if w.also != "" {
			manifests = append(manifests, w.also)
		}
	}
	c.apply(strings.Join(manifests, "---"))
	c.eventually(30*time.Second, func() error {
		if phase := c.kubectl("-n", "waiting", "get", "pvc", "elsewhere", "-o", "jsonpath={.status.phase}"); phase != "Bound" {
			return fmt.Errorf("the volume is %s", phase)
		}
		return nil
	})
	to := map[string]string{}
	for _, w := range others {
		t.Run(w.name, func(t *testing.T) { to[w.name] = c.as(t).waitingStory(&w) })
	}
	t.Run("the same as data", func(t *testing.T) {
		a := c.as(t).whyJSON("pod/arch", "-n", "waiting")
		if a.Verdict != "NoMachine" || a.Change.Object != "kubernetes.io/arch" || a.Change.To != "amd64" || len(a.Reason.Pools) != 7 {
			t.Errorf("%+v", a)
		}
		if yaml := c.as(t).why("pod/arch", "-n", "waiting", "-o", "yaml"); !strings.Contains(yaml, "\nverdict: NoMachine\n") {
			t.Errorf("as YAML:\n%s", yaml)
		}
	})
	t.Run("the changes are made", func(t *testing.T) { c.as(t).changesStory(to) })
}

// as is the cluster for a test within the test.
func (c *cluster) as(t testing.TB) *cluster {
	inner := *c
	inner.t = t
	return &inner
}

// value is what the smallest change names.
var value = regexp.MustCompile(`could be (\S+) \(now|asked for \S+ (\S+) instead`)

// waitingStory asks about a pod that waits, and gives the value that the smallest change names.
func (c *cluster) waitingStory(w *waiting) string {
	out := c.why("pod/"+w.name, "-n", "waiting")
	wantGolden(c.t.(*testing.T), "pod-"+w.name, out)
	change := ""
	for _, line := range strings.Split(out, "\n") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "smallest change "); ok {
			change = strings.TrimSpace(text)
		}
	}
	switch {
	case w.rule == "" && change != "":
		c.t.Errorf("somebody else decides, and the smallest change is %q", change)
	case w.rule != "" && w.change == "" && change != "none was found that is a single one":
		c.t.Errorf("the smallest change is %q, want none", change)
	case !strings.Contains(change, w.change):
		c.t.Errorf("the smallest change is %q, want %q", change, w.change)
	}
	if w.rule != "" && w.rule != "Blocked" && w.rule != "Unmodelled" && w.rule != "Taint" && w.rule != "PoolNotReady" && !strings.Contains(out, "0 by "+w.rule) {
		c.t.Errorf("the rule %s is not said to leave no type:\n%s", w.rule, out)
	}
	if v := value.FindStringSubmatch(change); v != nil {
		return v[1] + v[2]
	}
	return ""
}

// changesStory makes every change that was named: each pod gets its place.
func (c *cluster) changesStory(to map[string]string) {
	for _, w := range whyWaiting {
		switch {
		case w.fix != nil:
			w.fix(c)
		case w.fixed != "":
			c.kubectl("-n", "waiting", "delete", "pod", w.name, "--wait=true")
			spec, ask := strings.ReplaceAll(w.fixed, "TO", to[w.name]), w.ask
			if key, value, isRequest := strings.Cut(spec, " = "); isRequest {
				spec, ask = w.spec, key+": "+value
			}
			c.apply(w.manifest(spec, ask))
		}
	}
	for _, w := range whyWaiting {
		if w.fix != nil || w.fixed != "" {
			c.wantPods(60*time.Second, "waiting", w.name, 1)
		}
	}
	if placed := c.why("pod/taint", "-n", "waiting"); !strings.Contains(placed, "it is on") || !strings.Contains(placed, "machine costs") {
		c.t.Errorf("of a pod that has its place:\n%s", placed)
	}
}
