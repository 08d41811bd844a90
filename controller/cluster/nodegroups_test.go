package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// groupOf returns a NodeGroup of one to two nodes.
func groupOf(change func(*v1alpha1.NodeGroupStatus)) *v1alpha1.NodeGroup {
	g := &v1alpha1.NodeGroup{Status: v1alpha1.NodeGroupStatus{MinSize: 1, MaxSize: 2}}
	if change != nil {
		change(&g.Status)
	}
	return g
}

// A pool of a group has at most the group's maximum of nodes, and keeps at least its minimum.
func TestAGroupLimitsItsPool(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	w.SetGroup(class, groupOf(nil))
	w.SetCatalog(class, types1(), "")
	for _, name := range []string{"a", "b", "c"} {
		w.Update(nodeOf(name, 1))
		w.Update(claimOf("claim-"+name, name, 1))
	}
	s := w.Snapshot()
	if p := &s.Pools[0]; !p.Limits.NodesSet || p.Limits.Nodes != 2 || p.MinNodes != 1 || p.NotReady != "" {
		t.Errorf("limit %v %d, minimum %d, not ready: %s", p.Limits.NodesSet, p.Limits.Nodes, p.MinNodes, p.NotReady)
	}
	if plan := engine.Disrupt(s, model.Policy{}); len(plan.Removals) > 2 {
		t.Errorf("all of %d nodes go", len(plan.Removals))
	}
	changed(w)
	w.SetGroup(class, groupOf(func(g *v1alpha1.NodeGroupStatus) { g.MaxSize = 1 }))
	if !changed(w) || w.Snapshot().Pools[0].Limits.Nodes != 1 {
		t.Error("a lower maximum changes nothing")
	}
}

// A pool without its group's taint launches nothing: pods would be taken to tolerate taints that they do not
// tolerate.
func TestAPoolHasItsGroupsTaints(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	taint := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	w.SetGroup(class, groupOf(func(g *v1alpha1.NodeGroupStatus) { g.Taints = []corev1.Taint{taint} }))
	w.SetCatalog(class, types1(), "")
	if why := w.Snapshot().Pools[0].NotReady; !strings.Contains(why, "gpu=yes:NoSchedule") ||
		!strings.Contains(why, "spec.template.spec.taints") {
		t.Errorf("not ready: %q", why)
	}
	tainted := poolOf("p", 2)
	tainted.Spec.Template.Spec.Taints = []corev1.Taint{taint}
	w.Update(tainted)
	if why := w.Snapshot().Pools[0].NotReady; why != "" {
		t.Errorf("with the taint: %s", why)
	}
}

// Resources from a group's tags count for its types, and for its instances until their Nodes report them. New tags
// count although the catalogue stays the same.
func TestTagsGiveResources(t *testing.T) {
	w, _ := fresh()
	w.Update(poolOf("p", 1))
	types := types1()
	for _, n := range []string{"2", "4"} {
		w.SetGroup(class, groupOf(func(g *v1alpha1.NodeGroupStatus) {
			g.Resources = corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse(n), "ephemeral-storage": resource.MustParse("7Gi"),
			}
		}))
		w.SetCatalog(class, types, "")
		it := &w.Snapshot().Pools[0].Types[0]
		i := cloud.Instance{Capacity: it.Capacity}
		w.Equip(class, &i)
		want := resource.MustParse(n)
		for _, r := range []*model.Resources{&it.Capacity, &it.Allocatable, &i.Capacity, &i.Allocatable} {
			if r[model.NvidiaGPU] != want.Value() || r[model.EphemeralStorage] != 7<<30 {
				t.Errorf("with %s GPUs: %v", n, *r)
			}
		}
		if types1()[0].Capacity[model.CPU] != it.Capacity[model.CPU] {
			t.Error("other resources have changed")
		}
	}
}
