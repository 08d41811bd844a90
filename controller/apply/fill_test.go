package apply

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// A machine's Node says its turn, another process knows it, and without an order all turns end. Plans see none of it.
func TestMachinesHaveTheirTurnsUntilThereIsNoOrder(t *testing.T) {
	r := enter(t, "100")
	name := "node-" + r.occupied("a")
	ctx := context.Background()
	turnIs := func(want int) {
		t.Helper()
		node := &corev1.Node{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil || translate.Turn(node) != want {
			t.Errorf("turn %d, want %d: %v, %v", translate.Turn(node), want, node.Spec.Taints, err)
		}
	}
	var had int
	last := func(_ *model.Snapshot, now map[string]int) map[string]int {
		had = now[name]
		return map[string]int{name: 3}
	}
	r.actor.Fill(ctx, r.snapshot(), last)
	turnIs(3)
	r.until("the world has the Node as it is", func() bool { return translate.Turn(r.world.Node(name)) == 3 })
	for _, n := range r.snapshot().Nodes {
		if n.Name == name && len(n.Taints) > 0 {
			t.Errorf("plans see the taints %v", n.Taints)
		}
	}
	r.restart(nil)
	r.until("another process knows the Node", func() bool { return r.world.Node(name) != nil && len(r.snapshot().Nodes) > 0 })
	if r.actor.Fill(ctx, r.snapshot(), last); had != 3 {
		t.Errorf("it takes the turn for %d", had)
	}
	r.actor.Fill(ctx, r.snapshot(), nil)
	turnIs(0)
}
