package explain

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/explain/whatif"
)

// A DaemonSet that does not fit everywhere makes a difference: plan names the nodes, and once what is done about them.
func TestAPlanNamesNodesWithoutRoomForADaemonSet(t *testing.T) {
	const then = "Nodeless replaces the nodes, one after another"
	var out strings.Builder
	err := WritePlan(&out, &whatif.Outcome{Settled: true, DaemonsPending: []whatif.DaemonPending{
		{DaemonSet: "kube-system/agent", Node: "n1", Why: "400m CPU too few", Then: then},
		{DaemonSet: "kube-system/agent", Node: "n2", Why: "400m CPU too few", Then: then, Before: true},
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"DaemonSet pods that would stay Pending", "kube-system/agent on n1: 400m CPU too few\n",
		"kube-system/agent on n2: 400m CPU too few (also without the change)\n", then, "2 of DaemonSets Pending",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("it does not say %q once:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "Nothing would be different") {
		t.Errorf("it says that nothing would be different:\n%s", &out)
	}
}
