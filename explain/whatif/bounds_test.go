package whatif_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
)

const many = `apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 2000000000
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec: {containers: [{name: c, image: i}]}
`

// However many pods and nodes a request asks for, a forecast adds only up to its limit, and the error names the
// limit.
func TestWhatChangesAddIsBounded(t *testing.T) {
	static := func(n string) string { return strings.Replace(pool, "spec:\n", "spec:\n  replicas: "+n+"\n", 1) }
	for name, c := range map[string]struct{ manifests, says string }{
		"pods of a scale":    {"", "web with 2000000000 pods: a forecast adds at most 12"},
		"pods of a manifest": {many, "many with 2000000000 pods: a forecast adds at most 12"},
		"one pod too many": {
			strings.Replace(many, "2000000000", "13", 1),
			"many with 13 pods: a forecast adds at most 12",
		},
		"pods of two Deployments": {strings.Replace(many, "2000000000", "7", 1) + "---\n" +
			strings.NewReplacer("2000000000", "6", "many", "more").Replace(many), "more with 6 pods"},
		"fewer than none":           {strings.Replace(many, "2000000000", "-1", 1), "give 0 or more"},
		"machines of a static pool": {static("2000000000"), "general with 2000000000 nodes: a forecast adds at most 3"},
		"machines of pools together": {strings.Replace(static("2"), "general", "a", 1) + "---\n" +
			strings.Replace(static("2"), "general", "b", 1), "with 2 nodes: a forecast adds at most 3"},
	} {
		t.Run(name, func(t *testing.T) {
			in := whatif.Input{Gates: gates.Default(), MaxPods: 12, MaxNodes: 3}
			if c.manifests == "" {
				in.Changes = []whatif.Change{{Scale: "deployment/shop/web", Replicas: 2_000_000_000}}
			}
			if _, err := forecastBy(t, in, c.manifests); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	o, err := forecastBy(t, whatif.Input{Gates: gates.Default(), MaxPods: 12},
		strings.Replace(many, "2000000000", "12", 1))
	if err != nil || len(o.Unplaced) != 0 {
		t.Errorf("as many as it takes: %v %+v", err, o)
	}
	if _, err := forecastOf(t, many); err == nil || !strings.Contains(err.Error(), "a forecast adds at most 150000") {
		t.Errorf("without a bound of its own: %v", err)
	}
}

// leaves is a context that is cancelled after the given number of calls of Err.
type leaves struct {
	context.Context
	asked, after int
}

func (c *leaves) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// When the client goes away, the forecast ends at its next check of the context, and each of its parts checks it.
func TestAForecastEndsWithWhoAsked(t *testing.T) {
	ask := func(ctx context.Context) error {
		f, err := os.Open("testdata/cluster.yaml")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, err := capture.Load(t.Context(), f, "cluster.yaml", capture.Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = whatif.Run(ctx, whatif.Input{
			Cluster: c, Gates: gates.Default(),
			Changes: []whatif.Change{{Scale: "deployment/shop/web", Replicas: 40}},
		})
		return err
	}
	whole := &leaves{Context: t.Context(), after: 1 << 30}
	if err := ask(whole); err != nil {
		t.Fatal(err)
	}
	if whole.asked < 120 { // for each new pod, when it is created, added to the cluster and bound
		t.Errorf("it looked %d times", whole.asked)
	}
	for after := 0; after < whole.asked; after += whole.asked/8 + 1 {
		c := &leaves{Context: t.Context(), after: after}
		if err := ask(c); !errors.Is(err, context.Canceled) || c.asked > after+2 {
			t.Errorf("left at look %d of %d: it ended after %d with %v", after, whole.asked, c.asked, err)
		}
	}
}
