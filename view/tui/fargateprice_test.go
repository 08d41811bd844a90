package tui

import (
	"strconv"
	"testing"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// A pod on Fargate costs what its Node's label says: on the screen of nodes, and on that of its namespace.
func TestAFargatePodHasItsPrice(t *testing.T) {
	micros, _ := catalog.FargateHour("ap-northeast-2", 500, viewtest.Gi, 0)
	labels := map[string]string{
		"eks.amazonaws.com/compute-type": "fargate", "node.kubernetes.io/instance-type": "0.5vCPU-1GB",
		view.LabelPrice: strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64),
	}
	m, err := view.New([]string{"cpu", "memory"})
	if err != nil {
		t.Fatal(err)
	}
	m.SetNode(&view.Node{
		Name: "fargate-ip-10-0-7-9", Pod: "study-aews/netshoot-0", Created: viewtest.Now.Add(-time.Hour), Ready: true,
		Labels: labels, Allocatable: view.Amounts{500, viewtest.Gi}, Price: view.PriceOf(labels),
	})
	m.SetPod(&view.Pod{
		UID: "uid", Namespace: "study-aews", Name: "netshoot-0", Node: "fargate-ip-10-0-7-9", Phase: view.Running,
		Created: viewtest.Now.Add(-time.Hour), Requests: view.Amounts{500, viewtest.Gi},
	})
	for key, row := range map[string]string{"1": "fargate-ip-10-0-7-9", "6": "study-aews"} {
		a := app(t, m, 160, 24, false)
		press(a, key)
		sees(t, a, row, "$0.0284")
	}
}
