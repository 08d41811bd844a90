package cluster

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// lacking are the pods of DaemonSets that wait for one machine each.
type lacking struct {
	on map[string]map[types.NamespacedName]model.MissingDaemon // by the Node's name
	of map[types.NamespacedName]string                         // the Node, by pod
}

func newLacking() lacking {
	return lacking{on: map[string]map[types.NamespacedName]model.MissingDaemon{}, of: map[types.NamespacedName]string{}}
}

// noteLacking keeps up to date that a pod waits for the Node, or for none if that is "".
func (w *World) noteLacking(key types.NamespacedName, node string, p *translate.Pod) {
	before := w.lacking.of[key]
	if before == node && (node == "" || w.lacking.on[node][key].Since.Equal(p.Created)) {
		return
	}
	if delete(w.lacking.on[before], key); len(w.lacking.on[before]) == 0 {
		delete(w.lacking.on, before)
	}
	delete(w.lacking.of, key)
	if node != "" {
		if w.lacking.on[node] == nil {
			w.lacking.on[node] = map[types.NamespacedName]model.MissingDaemon{}
		}
		w.lacking.on[node][key], w.lacking.of[key] = model.MissingDaemon{DaemonSet: p.DaemonSet, Since: p.Created}, node
	}
	w.machines.touchPods(before)
	w.machines.touchPods(node)
	w.poke()
}

// lacks are the DaemonSets whose pods wait for a Node, by name; of several pods of one the first that came.
func (w *World) lacks(node string) []model.MissingDaemon {
	var out []model.MissingDaemon
	for _, l := range w.lacking.on[node] {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b model.MissingDaemon) int {
		return cmp.Or(cmp.Compare(a.DaemonSet, b.DaemonSet), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(out, func(a, b model.MissingDaemon) bool { return a.DaemonSet == b.DaemonSet })
}
