package tui

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// AWS bills a capacity reservation, used or not: its nodes cost nothing more, on every screen and in every sum, and
// that is not an unknown price. When the reservation has ended, they cost their on-demand price.
func TestAReservedNodeIsPrepaid(t *testing.T) {
	const name = "ip-10-0-3-4"
	for capacity, price := range map[string]string{"reserved": "$0.0000", "on-demand": "$0.1920"} {
		labels := map[string]string{
			"karpenter.sh/nodepool": "prepaid", "karpenter.sh/capacity-type": capacity,
			"node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/zone": "us-west-2b",
		}
		m, err := view.New([]string{"cpu", "memory"})
		if err != nil {
			t.Fatal(err)
		}
		m.SetNode(&view.Node{
			Name: name, Created: viewtest.Now.Add(-time.Hour), Ready: true, Labels: labels,
			Allocatable: view.Amounts{4000, 16 * viewtest.Gi}, Price: view.PriceOf(labels),
		})
		m.SetPool(&view.Pool{Name: "prepaid"})
		m.SetPod(&view.Pod{
			UID: "uid", Namespace: "shop", Name: "web-0", Node: name, Phase: view.Running, Created: viewtest.Now,
			Requests: view.Amounts{4000, 16 * viewtest.Gi},
		})
		if total := m.Totals(); total.Unpriced != 0 {
			t.Errorf("%s: %d nodes without a price", capacity, total.Unpriced)
		}
		a := app(t, m, 160, 24, false)
		press(a, "1")
		sees(t, a, name, price)
		press(a, "2")
		sees(t, a, "prepaid", price)
		press(a, "6")
		sees(t, a, "shop", price)
		if costs, _ := view.DivideBy(view.GroupNamespace); costs.Costs(m)[0].Unpriced != 0 {
			t.Errorf("%s: the price of its pods is said to be unknown: %+v", capacity, costs.Costs(m))
		}
	}
}
