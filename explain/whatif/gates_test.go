package whatif_test

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/explain/whatif"
)

const overlay = `apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dear}
spec:
  price: "9"
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
`

// Features that the controller has disabled have no effect, and the forecast says so.
func TestClosedGatesAreAssumedAndSaid(t *testing.T) {
	kept := strings.Replace(strings.Replace(pool, "general", "kept", 1), "spec:", "spec:\n  replicas: 2", 1)
	for _, c := range []struct {
		manifests, closed, open string // outcomes with closed and open gates
		why                     string // with closed gates
	}{
		{
			kept, "0 evicted, 0 unplaced, 0 kept, 2 nodes",
			"Launch at 0 +m5.large; Launch at 0 +m5.large; 0 evicted, 0 unplaced, 0 kept, 4 nodes",
			"NodePool kept launches nothing: spec.replicas is set, but the feature gate StaticCapacity is off",
		},
		{
			overlay, "0 evicted, 0 unplaced, 0 kept, 2 nodes", "0 evicted, 0 unplaced, 0 kept, 2 nodes",
			"the feature gate NodeOverlay is off",
		},
	} {
		for _, on := range []bool{false, true} {
			o, err := forecastBy(t, whatif.Input{Gates: gates.Gates{StaticCapacity: on, NodeOverlay: on, Nominations: true}},
				c.manifests)
			if err != nil {
				t.Fatal(err)
			}
			want := c.closed
			if on {
				want = c.open
			}
			if got, said := told(o), strings.Contains(strings.Join(o.Assumed, "; "), c.why); got != want || said == on {
				t.Errorf("gates open: %t: %s, want %s; assumed: %q", on, got, want, o.Assumed)
			}
			if dear := o.After.DollarsPerHour > 9; dear != (on && c.manifests == overlay) {
				t.Errorf("gates open: %t: $%v/h", on, o.After.DollarsPerHour)
			}
		}
	}
}
