package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// whatIf is a change of a pool with machines, and pods on them, of its own.
type whatIf struct {
	name     string
	replicas int
	budgets  string                   // of the pool
	pods     string                   // manifests beside the Deployment, in the namespace
	change   func(pool string) string // the manifests after the change
	args     []string                 // of plan, where no manifest says the change …
	kubectl  []string                 // … and what carries it out
	replaced bool                     // whether machines are to go: a forecast of nothing must not do for all
}

func instead(old, now string) func(string) string {
	return func(pool string) string { return strings.Replace(pool, old, now, 1) }
}

const (
	ofTemplate = "  template:\n    spec:\n"
	ofClass    = "EC2NodeClass, name: default}"
	agent      = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: NAME}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: NAME}
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: pause, resources: {requests: {cpu: CPU}}}]
---
`
)

// class is an EC2NodeClass with something more in its spec.
func class(name, more string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
%s---
`, name, more)
}

func daemonSet(name, cpu string) string {
	return strings.NewReplacer("NAME", name, "CPU", cpu).Replace(agent)
}

var whatIfs = []whatIf{
	{name: "p-label", replicas: 2, change: instead(ofTemplate, "  template:\n    metadata: {labels: {tier: new}}\n    spec:\n"), replaced: true},
	{name: "p-note", replicas: 1, change: instead(ofTemplate, "  template:\n    metadata: {annotations: {team: shop}}\n    spec:\n"), replaced: true},
	{name: "p-grace", replicas: 1, change: instead(ofTemplate, ofTemplate+"      terminationGracePeriod: 1h\n"), replaced: true},
	{name: "p-expire", replicas: 1, change: instead(ofTemplate, ofTemplate+"      expireAfter: 100h\n"), replaced: true},
	{name: "p-larger", replicas: 2, change: instead("m5.large", "m5.xlarge"), replaced: true},
	{name: "p-cheaper", replicas: 1, change: instead("m5.large", "c5.large"), replaced: true},
	{name: "p-wider", replicas: 1, change: instead("[m5.large]", "[m5.large, c5.large, r5.large]")},
	{name: "p-taint", replicas: 1, change: instead("taints: [", "taints: [{key: more, value: x, effect: NoSchedule}, ")},
	{name: "p-one", replicas: 3, budgets: "[{nodes: '1'}]", change: instead(ofTemplate, "  template:\n    metadata: {labels: {tier: new}}\n    spec:\n"), replaced: true},
	{name: "p-none", replicas: 1, budgets: "[{nodes: '0'}]", change: instead(ofTemplate, "  template:\n    metadata: {labels: {tier: new}}\n    spec:\n")},
	{name: "p-weight", replicas: 1, change: instead("spec:\n", "spec:\n  weight: 7\n")},
	{name: "p-limit", replicas: 1, change: instead("spec:\n", "spec:\n  limits: {cpu: 1}\n")},
	{name: "p-budget", replicas: 1, change: instead("100%", "50%")},
	{name: "p-pdb", replicas: 1, change: instead(ofTemplate, "  template:\n    metadata: {labels: {tier: new}}\n    spec:\n"), pods: `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: p-pdb}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
`},
	{name: "c-tags", replicas: 1, pods: class("c-tags", ""), change: func(string) string { return class("c-tags", "  tags: {team: shop}\n") }, replaced: true},
	{name: "c-data", replicas: 2, pods: class("c-data", ""), change: func(string) string { return class("c-data", "  detailedMonitoring: true\n") }, replaced: true},
	{name: "d-small", replicas: 1, change: func(string) string { return daemonSet("d-small", "100m") }},
	{name: "d-large", replicas: 1, change: func(string) string { return daemonSet("d-large", "1900m") }},
	{name: "d-gone", replicas: 1, pods: daemonSet("d-gone", "100m"), args: []string{"--delete", "daemonset/d-gone/agent"}, kubectl: []string{"delete", "daemonset", "agent"}},
	{name: "w-more", replicas: 1, args: []string{"--scale", "deployment/w-more/web=3"}, kubectl: []string{"scale", "deployment/web", "--replicas=3"}},
	{name: "p-gone", replicas: 1, args: []string{"--delete", "nodepool/p-gone"}, kubectl: []string{"delete", "nodepool", "p-gone", "--wait=false"}, replaced: true},
}

func (x *whatIf) pool() string {
	budgets := x.budgets
	if budgets == "" {
		budgets = "[{nodes: 100%}]"
	}
	out := strings.TrimSuffix(strings.TrimPrefix(pool(x.name, "{consolidateAfter: Never, budgets: "+budgets+"}"), "\n"), "---\n")
	if strings.HasPrefix(x.name, "c-") {
		out = strings.Replace(out, ofClass, "EC2NodeClass, name: "+x.name+"}", 1)
	}
	return out
}

// planned is what `nodeless plan -o json` says.
type planned struct {
	Before, After  struct{ DollarsPerHour float64 }
	Evictions      []struct{ Pod string }
	Removed, Added []struct{ Name, Type, NodePool string }
	Kept, Unplaced []struct{ Name, Why string }
}

// inPool is what a pool holds: types of machines by node, pods by name, those of DaemonSets left out.
type inPool struct {
	nodes map[string]string
	pods  map[string]bool
}

func (c *cluster) inPool(name string) (inPool, error) {
	out := inPool{nodes: map[string]string{}, pods: map[string]bool{}}
	var nodes corev1.NodeList
	var pods corev1.PodList
	err := errors.Join(c.List(context.Background(), &nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: name}),
		c.List(context.Background(), &pods, client.InNamespace(name), client.MatchingLabels{"app": "web"}))
	for i := range nodes.Items {
		out.nodes[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelInstanceTypeStable]
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			out.pods[name+"/"+pods.Items[i].Name] = true
		}
	}
	return out, err
}

// as says in what a pool is not as it was planned; nil if it is.
func (p *planned) as(before, now inPool) error {
	gone, come, evicted := map[string]bool{}, map[string]int{}, map[string]bool{}
	for name := range before.nodes {
		if now.nodes[name] == "" {
			gone[name] = true
		}
	}
	for name, kind := range now.nodes {
		if before.nodes[name] == "" {
			come[kind]++
		}
	}
	for pod := range before.pods {
		if !now.pods[pod] {
			evicted[pod] = true
		}
	}
	wantGone, wantCome, wantEvicted := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, m := range p.Removed {
		wantGone[m.Name] = true
	}
	for _, m := range p.Added {
		wantCome[m.Type]++
	}
	for _, e := range p.Evictions {
		wantEvicted[e.Pod] = true
	}
	if !maps.Equal(gone, wantGone) || !maps.Equal(come, wantCome) || !maps.Equal(evicted, wantEvicted) {
		return fmt.Errorf("planned: %v go, %v come, %v evicted; it happened that %v go, %v come, %v evicted", wantGone, wantCome, wantEvicted, gone, come, evicted)
	}
	return nil
}

// plan asks for a plan of all these changes, and returns what it says and the exit code.
func (c *cluster) plan(all []whatIf, args ...string) (planned, string, int) {
	c.t.Helper()
	args = append([]string{"plan", "--detailed-exitcode", "-o", "json", "-f", "-"}, args...)
	var manifests strings.Builder
	for i := range all {
		args = append(args, all[i].args...)
		if all[i].change != nil {
			manifests.WriteString(all[i].change(all[i].pool()) + "---\n")
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdin = append(c.environment(), "NODELESS_DATA_DIR="+c.dir), strings.NewReader(manifests.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	var p planned
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		c.t.Fatalf("plan: exit code %d, %v\n%s%s", cmd.ProcessState.ExitCode(), err, out.String(), errs.String())
	}
	return p, out.String(), cmd.ProcessState.ExitCode()
}

// of is what a plan says of one pool, whose namespace has its name.
func (p *planned) of(pool string) planned {
	out := planned{}
	for _, m := range p.Removed {
		if m.NodePool == pool {
			out.Removed = append(out.Removed, m)
		}
	}
	for _, m := range p.Added {
		if m.NodePool == pool {
			out.Added = append(out.Added, m)
		}
	}
	for _, e := range p.Evictions {
		if strings.HasPrefix(e.Pod, pool+"/") {
			out.Evictions = append(out.Evictions, e)
		}
	}
	return out
}

// What plan says of more than 20 changes is what happens when they are made.
func TestAPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	var setup strings.Builder
	for i := range whatIfs {
		x := &whatIfs[i]
		fmt.Fprintf(&setup, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", x.name)
		setup.WriteString(x.pool() + "---\n" + x.pods + "---\n" + apart(x.name, "web", "500m", x.replicas, true))
	}
	c.apply(setup.String())
	before := map[string]inPool{}
	for i := range whatIfs {
		x := &whatIfs[i]
		c.wantPods(180*time.Second, x.name, "web", x.replicas)
		in, err := c.inPool(x.name)
		if err != nil || len(in.nodes) != x.replicas {
			t.Fatalf("%s: %d machines, %v", x.name, len(in.nodes), err)
		}
		before[x.name] = in
	}
	c.eventually(30*time.Second, func() error { // DaemonSets' pods have their places
		if n := c.ready("d-gone", "agent"); n != 1 {
			return fmt.Errorf("%d agents are ready", n)
		}
		return nil
	})
	dollars := c.dollars()
	all, text, code := c.plan(whatIfs)
	if code != 2 || math.Abs(all.Before.DollarsPerHour-dollars) > 1e-6 {
		t.Errorf("plan: exit code %d, it begins with $%v/h, the region says $%v/h", code, all.Before.DollarsPerHour, dollars)
	}
	plans := map[string]planned{}
	for i := range whatIfs {
		x := &whatIfs[i]
		plans[x.name] = all.of(x.name)
		if x.replaced != (len(plans[x.name].Removed) > 0) {
			t.Errorf("plan of %s: %+v", x.name, plans[x.name])
		}
	}
	c.askedOfACapture(t, &all)
	if t.Failed() {
		t.Fatal(text)
	}
	var changes strings.Builder
	for i := range whatIfs {
		if x := &whatIfs[i]; x.change != nil {
			changes.WriteString(x.change(x.pool()) + "---\n")
		} else {
			c.kubectl(append([]string{"-n", x.name}, x.kubectl...)...)
		}
	}
	c.apply(changes.String())
	happened := func() error {
		for i := range whatIfs {
			x := &whatIfs[i]
			now, err := c.inPool(x.name)
			p := plans[x.name]
			if err = errors.Join(err, p.as(before[x.name], now)); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		if got := c.dollars(); math.Abs(got-all.After.DollarsPerHour) > 1e-6 {
			return fmt.Errorf("the region costs $%v/h, planned was $%v/h", got, all.After.DollarsPerHour)
		}
		return nil
	}
	c.eventually(150*time.Second, happened)
	if t.Failed() {
		return
	}
	t.Logf("%d changes: %d machines go, %d come, %d pods evicted, $%.3f/h, as planned", len(whatIfs), len(all.Removed), len(all.Added), len(all.Evictions), all.After.DollarsPerHour)
}

// askedOfACapture asks once more, of a file, with the cluster out of sight, and gets the same plan.
func (c *cluster) askedOfACapture(t *testing.T, want *planned) {
	t.Helper()
	cmd := exec.Command(binary, "capture")
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	dump, err := cmd.Output()
	if err != nil {
		t.Fatalf("capture: %v", err)
	}
	if bytes.Contains(dump, []byte("image: pause")) || !bytes.Contains(dump, []byte("kind: CaptureEnd")) {
		t.Errorf("the capture holds what it should not, or not all")
	}
	file := c.home + "/cluster.yaml"
	if err := os.WriteFile(file, dump, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, _ := c.plan(whatIfs, "--from", file)
	if len(p.Removed) != len(want.Removed) || len(p.Added) != len(want.Added) || len(p.Evictions) != len(want.Evictions) || math.Abs(p.After.DollarsPerHour-want.After.DollarsPerHour) > 1e-6 {
		t.Errorf("of the capture it says %+v, of the cluster %+v", p, want)
	}
	x := &whatIfs[0]
	for text, want := range map[string]string{
		strings.Replace(x.pool(), "operator: In", "operator: Im", 1): "line 11",
		strings.Replace(x.pool(), "taints:", "tainst:", 1):           `unknown field "spec.template.spec.tainst"`,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n":        "plan does not know what follows from a changed Secret a",
	} {
		if out, err := c.runIn(text, "plan", "--from", file, "-f", "-"); err == nil || !strings.Contains(out, want) {
			t.Errorf("plan of a bad manifest: %v, want %q\n%s", err, want, out)
		}
	}
}
