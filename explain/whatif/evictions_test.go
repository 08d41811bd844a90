package whatif_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/explain/whatif"
)

// Edits of testdata/cluster.yaml.
const (
	ending  = "\n  deletionTimestamp: \"2026-11-03T10:00:30Z\"\n"
	running = `status:
  phase: Running
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-02T10:01:00Z"}, {type: PodScheduled, status: "True", lastTransitionTime: "2026-11-02T10:01:00Z"}]
`
)

// claimDeleted are the edits with which the claim of n1 is being deleted.
var claimDeleted = []string{
	"  name: general-1\n",
	"  name: general-1\n  deletionTimestamp: \"2026-11-03T10:00:00Z\"\n  finalizers: [karpenter.sh/termination]\n",
}

func mustForecast(t *testing.T, cluster string, manifests string, changes ...whatif.Change) *whatif.Outcome {
	t.Helper()
	o, err := forecastIn(t, cluster, whatif.Input{Changes: changes, Gates: gates.Default()}, manifests)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func scaledTo(t *testing.T, text string) whatif.Change {
	t.Helper()
	c, err := whatif.ParseScale(text, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A terminating pod ends. Its successor exists already, unless it belongs to a StatefulSet.
func TestTerminatingPodsEnd(t *testing.T) {
	web1Ends := []string{"  name: web-1\n", "  name: web-1" + ending}
	for name, c := range map[string]struct {
		edits  []string
		change []whatif.Change
		want   string
	}{
		"on a node being removed, its successor runs elsewhere": {
			edits: slices.Concat(claimDeleted, web1Ends),
			want:  "0 evicted, 0 unplaced, 0 kept, 1 nodes",
		},
		"on a node being removed, of a StatefulSet": {
			edits: slices.Concat(claimDeleted, web1Ends, []string{"kind: ReplicaSet, name: web-abc", "kind: StatefulSet, name: web"}),
			want:  "Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
		"on another node, whose room another pod gets": {
			edits:  web1Ends,
			change: []whatif.Change{scaledTo(t, "deployment/web=2")},
			want:   "0 evicted, 0 unplaced, 0 kept, 2 nodes",
		},
	} {
		if got := told(mustForecast(t, edited(t, c.edits...), "", c.change...)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// Evictions are granted as the Eviction API does.
func TestBudgetsHoldWhatTheyHoldInTheEvictionAPI(t *testing.T) {
	const (
		budget = `---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 2, expectedPods: 2, observedGeneration: 1}
`
		stays = "Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 3 nodes"
		goes  = "Launch at 0 +m5.large; 1 evicted, 0 unplaced, 0 kept, 2 nodes"
	)
	unready := []string{running, strings.Replace(running, `Ready, status: "True"`, `Ready, status: "False"`, 1)}
	for name, c := range map[string]struct {
		edits []string
		pdb   string
		want  string
	}{
		"a ready pod": {pdb: budget, want: stays},
		"a pod that starts": {
			edits: []string{running, strings.Replace(unready[1], "Running", "Pending", 1)}, pdb: budget, want: goes,
		},
		"an unready pod": {edits: unready, pdb: budget, want: stays},
		"an unready pod, which is always allowed": {
			edits: unready, want: goes,
			pdb: strings.Replace(budget, "minAvailable: 2", "minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow", 1),
		},
		"an unready pod, and enough others are ready": {
			edits: unready, want: goes,
			pdb: strings.NewReplacer("minAvailable: 2", "minAvailable: 1", "desiredHealthy: 2", "desiredHealthy: 1").Replace(budget),
		},
		"a pod that stays until its node is deleted": {
			edits: []string{"  nodeName: n1\n  containers", "  nodeName: n1\n  tolerations: [{key: karpenter.sh/disrupted, operator: Exists}]\n  containers"},
			pdb:   budget, want: goes,
		},
	} {
		o := mustForecast(t, edited(t, slices.Concat(claimDeleted, c.edits)...)+c.pdb, "")
		if got := told(o); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// The cluster's status of a PodDisruptionBudget no longer holds once the change deletes pods.
func TestBudgetsAreCountedAgainAfterTheChange(t *testing.T) {
	const budget = `---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, observedGeneration: 1}
`
	labelled := strings.Replace(pool, "    spec:", "    metadata: {labels: {tier: new}}\n    spec:", 1)
	o := mustForecast(t, edited(t)+budget, labelled, scaledTo(t, "deployment/web=1"))
	if len(o.Evictions) > 0 {
		t.Errorf("%s; want nothing evicted, as one pod has to be available", told(o))
	}
}
