package whatif_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/internal/kit/manifest"
)

const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
`

const class = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`

const agent = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]
`

// forecastOf returns the forecast for testdata/cluster.yaml: two nodes, each with a pod that nearly fills it, of
// which one may be removed at a time.
func forecastOf(t *testing.T, manifests string, changes ...whatif.Change) (*whatif.Outcome, error) {
	t.Helper()
	return forecastBy(t, whatif.Input{Changes: changes, Gates: gates.Default()}, manifests)
}

func forecastBy(t *testing.T, in whatif.Input, manifests string) (*whatif.Outcome, error) {
	t.Helper()
	return forecastIn(t, edited(t), in, manifests)
}

// edited returns testdata/cluster.yaml with its first occurrences of the even strings replaced by the odd ones.
func edited(t *testing.T, edits ...string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the cluster has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

// forecastIn returns the forecast for a cluster.
func forecastIn(t *testing.T, cluster string, in whatif.Input, manifests string) (*whatif.Outcome, error) {
	t.Helper()
	c, err := capture.Load(t.Context(), strings.NewReader(cluster), "cluster.yaml", capture.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if manifests != "" {
		err := manifest.Each(strings.NewReader(manifests), func(i manifest.Item) error {
			in.Changes = append(in.Changes, whatif.Change{Item: i, File: "new.yaml", Namespace: "shop"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	in.Cluster = c
	return whatif.Run(t.Context(), in)
}

// told formats an outcome in short.
func told(o *whatif.Outcome) string {
	var out []string
	for _, s := range o.Steps {
		text := fmt.Sprintf("%s at %.0f", s.Action, s.AfterSeconds)
		for _, m := range s.Removed {
			text += " " + m.Name
		}
		for _, m := range s.Launched {
			text += " +" + m.Type
		}
		out = append(out, text)
	}
	end := fmt.Sprintf("%d evicted, %d unplaced, %d kept, %d nodes", len(o.Evictions), len(o.Unplaced), len(o.Kept),
		o.After.Nodes)
	for _, d := range o.DaemonsPending {
		end += fmt.Sprintf(", %s Pending on %s", d.DaemonSet, d.Node)
	}
	return strings.Join(append(out, end), "; ")
}

func TestWhatChangesComeTo(t *testing.T) {
	scaled, err := whatif.ParseScale("deployment/web=3", "shop")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		manifests string
		change    []whatif.Change
		want      string
	}{
		"the same pool": {manifests: pool, want: "0 evicted, 0 unplaced, 0 kept, 2 nodes"},
		"a label": {
			manifests: strings.Replace(pool, "    spec:",
				"    metadata: {labels: {tier: new}}\n    spec:", 1),
			want: "Replace at 0 n1 +m5.large; Replace at 70 n2 +m5.large; 2 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"another type": {
			manifests: strings.Replace(pool, "m5.large", "c5.large", 1),
			want:      "Replace at 0 n1 +c5.large; Replace at 70 n2 +c5.large; 2 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"types that hold no pod": {
			manifests: strings.Replace(pool, "m5.large", "t2.micro", 1),
			want:      "0 evicted, 0 unplaced, 2 kept, 2 nodes",
		},
		"a class": {
			manifests: class + "  tags: {team: shop}\n",
			want:      "Replace at 0 n1 +m5.large; Replace at 70 n2 +m5.large; 2 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"a DaemonSet that fits": {manifests: agent, want: "0 evicted, 0 unplaced, 0 kept, 2 nodes"},
		"a DaemonSet that does not": {
			manifests: strings.Replace(agent, "100m", "1", 1),
			want:      "0 evicted, 0 unplaced, 0 kept, 2 nodes, shop/agent Pending on n1, shop/agent Pending on n2",
		},
		"a DaemonSet for which the pool makes room": {
			manifests: strings.Replace(agent, "100m", "1", 1) + "---\n" +
				strings.NewReplacer("name: general}",
					"name: general, annotations: {nodeless.sh/make-room-for-daemonsets: 'true'}}", "m5.large",
					"m5.large, m5.xlarge").Replace(pool),
			want: "Replace at 60 n1 +m5.xlarge; Replace at 130 n2 +m5.xlarge; 2 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"another pod": {
			change: []whatif.Change{scaled},
			want:   "Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 3 nodes",
		},
		"the pool goes": {
			change: []whatif.Change{{Delete: "nodepool/general"}},
			want:   "2 evicted, 2 unplaced, 0 kept, 0 nodes",
		},
		"the Deployment goes": {
			change: []whatif.Change{{Delete: "deploy/shop/web"}},
			want:   "0 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"the class goes, and a pod comes": {
			change: []whatif.Change{{Delete: "ec2nodeclass/default"}, scaled},
			want:   "0 evicted, 1 unplaced, 0 kept, 2 nodes",
		},
		"a pool comes, without a word of disruption": {
			manifests: strings.Replace(pool, "general", "cheap", 1),
			want:      "0 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := forecastOf(t, c.manifests, c.change...)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(o); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if quiet := c.want == "0 evicted, 0 unplaced, 0 kept, 2 nodes"; quiet == o.Differs() {
				t.Errorf("it makes a difference: %t", o.Differs())
			}
			if o.After.Nodes == o.Before.Nodes && len(o.Added) == 0 && o.After.DollarsPerHour != o.Before.DollarsPerHour {
				t.Errorf("the same machines cost $%v/h, and $%v/h before", o.After.DollarsPerHour, o.Before.DollarsPerHour)
			}
			if !o.Settled || len(o.Changes) != max(len(c.change), strings.Count(c.manifests, "---")+1, 1) ||
				o.Before.Nodes != 2 || o.BootTime != 60 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Pods of a forecast request what the API server would fill in: a limit without a request, and the namespace's defaults.
func TestPodsRequestWhatTheAPIServerFillsIn(t *testing.T) {
	const (
		limited = `---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: shop}
spec: {limits: [{type: Container, defaultRequest: {cpu: 300m}}]}
`
		web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: new, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: new}}
  template:
    metadata: {labels: {app: new}}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: 300m}}}]
`
	)
	daemon := strings.Replace(agent, "100m", "300m", 1) + "---\n" +
		strings.Replace(pool, "    spec:", "    metadata: {labels: {tier: new}}\n    spec:", 1)
	for _, c := range []struct{ what, cluster, manifests, want string }{
		{
			"beside the DaemonSet's pod, n2 has no room for the pod of n1", edited(t, "1500m", "300m"), daemon,
			"Replace at 0 n1 +m5.large; Replace at 70 n2 +m5.large; 2 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		{
			"n1 and n2 have room for two of four pods", edited(t), web,
			"Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 3 nodes",
		},
	} {
		for by, edit := range map[string]struct{ cluster, manifests string }{
			"requests":     {c.cluster, c.manifests},
			"limits":       {c.cluster, strings.Replace(c.manifests, "requests", "limits", 1)},
			"a LimitRange": {c.cluster + limited, strings.Replace(c.manifests, ", resources: {requests: {cpu: 300m}}", "", 1)},
		} {
			if got := told(mustForecast(t, edit.cluster, edit.manifests)); got != c.want {
				t.Errorf("%s, by %s:\ngot  %s\nwant %s", c.what, by, got, c.want)
			}
		}
	}
}

// Three pods with a host port do not share two nodes, though they would have room there.
func TestADeploymentGetsAHostPort(t *testing.T) {
	const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m}}}]
`
	cluster := strings.ReplaceAll(edited(t), "1500m", "400m")
	want := "Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 3 nodes"
	if got := told(mustForecast(t, cluster, web)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "0 evicted, 0 unplaced, 0 kept, 2 nodes"
	if got := told(mustForecast(t, cluster, strings.Replace(web, ", hostPort: 80", "", 1))); got != want {
		t.Errorf("without it:\ngot  %s\nwant %s", got, want)
	}
}

// If two nodes become ready at once and the pods were not nominated to the nodes launched for them, kube-scheduler
// would bind the small pod to the larger node, and the large pod would need a third one.
func TestPodsGetTheMachinesThatWereLaunchedForThem(t *testing.T) {
	const deployment = `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: MEMORY}}}]
`
	manifests := strings.Replace(pool, "m5.large", "c5.large, m5.large, r5.large", 1) +
		strings.NewReplacer("NAME", "a-small", "MEMORY", "2Gi").Replace(deployment) + strings.NewReplacer("NAME",
		"b-large", "MEMORY", "12Gi").Replace(deployment)
	for on, want := range map[bool]string{
		true:  "Launch at 0 +r5.large; Launch at 0 +c5.large; 0 evicted, 0 unplaced, 0 kept, 4 nodes",
		false: "Launch at 0 +r5.large; Launch at 0 +c5.large; Launch at 60 +r5.large; 0 evicted, 0 unplaced, 0 kept, 5 nodes",
	} {
		o, err := forecastBy(t, whatif.Input{Gates: gates.Gates{Nominations: on}}, manifests)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(o); got != want {
			t.Errorf("nominations %t: %s, want %s", on, got, want)
		}
	}
}

func TestBadChangesAreRefusedWithTheirLine(t *testing.T) {
	for _, c := range []struct {
		manifests string
		change    []whatif.Change
		want      string
	}{
		{
			manifests: strings.Replace(pool, "operator: In", "operator: Im", 1),
			want:      "new.yaml: line 8: NodePool general: spec.template.spec.requirements[0].operator",
		},
		{
			manifests: strings.Replace(pool, "requirements", "requirement", 1),
			want:      `line 8: NodePool general: unknown field "spec.template.spec.requirement"`,
		},
		{
			manifests: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
			want:      "plan cannot forecast a changed Secret a",
		},
		{
			manifests: "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
			want:      "line 1: Widget a (example.com/v1)",
		},
		{change: []whatif.Change{{Delete: "nodepool/none"}}, want: "--delete nodepool/none: not found"},
		{change: []whatif.Change{{Delete: "pod/web"}}, want: "want kind/name"},
		{change: []whatif.Change{{Delete: "nodepool/shop/general"}}, want: "has no namespace"},
		{change: []whatif.Change{{Scale: "nodepool/general", Replicas: 2}}, want: "the NodePool has no spec.replicas"},
		{
			change: []whatif.Change{{Scale: "nodepool/none", Replicas: 2}},
			want:   "--scale nodepool/none: not found",
		},
		{
			change: []whatif.Change{{Scale: "daemonset/agent", Replicas: 2, Namespace: "shop"}},
			want:   "only deployments and static nodepools are scaled",
		},
		{
			change: []whatif.Change{{Scale: "deployment/none", Replicas: 2, Namespace: "shop"}},
			want:   "not found",
		},
	} {
		if _, err := forecastOf(t, c.manifests, c.change...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	if _, err := whatif.ParseScale("deployment/web", ""); err == nil {
		t.Error("a scale without a number")
	}
}

// There are no figures for a cluster whose pools get no nodes.
func TestAChangeThatCannotWorkHasNoFigures(t *testing.T) {
	for name, c := range map[string]struct{ manifests, want string }{
		"a type that does not exist": {
			strings.Replace(pool, "m5.large", "m5.lareg", 1),
			"no instance type or offering of pool general has node.kubernetes.io/instance-type In [m5.lareg]",
		},
		"a class that does not exist": {
			strings.Replace(pool, "name: default", "name: none", 1),
			`EC2NodeClass "none" does not exist`,
		},
		"a zone without a subnet": {
			strings.Replace(pool, "requirements: [",
				"requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [mars-1a]}, ", 1),
			"topology.kubernetes.io/zone In [mars-1a]",
		},
		"minValues that nothing keeps": {strings.Replace(pool, "[m5.large]}", "[m5.large], minValues: 2}", 1), "minValues 2"},
		"a limit below none": {strings.Replace(pool, "spec:\n  template",
			"spec:\n  limits: {cpu: -5}\n  template", 1), "limits"},
		"a class without images": {
			strings.Replace(class, "al2023@latest", "gentoo@latest", 1),
			"(it is the class of NodePool general)",
		},
		"a new pool": {strings.NewReplacer("name: general", "name: new", "m5.large",
			"m5.lareg").Replace(pool), "pool new"},
	} {
		o, err := forecastOf(t, c.manifests)
		var broken *whatif.CannotWorkError
		if o != nil || !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, o, err, c.want)
		}
	}
}

// A deleted Node takes its instance and its DaemonSets' pods along; its other pods are rescheduled.
func TestNodesThatAreDeleted(t *testing.T) {
	o, err := forecastOf(t, agent, whatif.Change{Delete: "node/n1"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(o.Changes, "Node n1 is deleted: 1 pod created again") {
		t.Errorf("it says %q", o.Changes)
	}
	if o.Before.Nodes != 2 || o.After.Nodes != 2 || len(o.Added) != 1 || len(o.Unplaced) > 0 {
		t.Errorf("%d nodes become %d, added %v, unplaced %v; want one added for the pod", o.Before.Nodes, o.After.Nodes,
			o.Added, o.Unplaced)
	}
	if _, err := forecastOf(t, "", whatif.Change{Delete: "node/none"}); err == nil ||
		!strings.Contains(err.Error(), "--delete node/none: not found") {
		t.Errorf("a Node that is not there: %v", err)
	}
}
