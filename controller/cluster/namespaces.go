package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

func (w *World) updateNamespace(o *corev1.Namespace, now time.Time) {
	old := w.namespaces.live[keyOf(o)]
	if w.namespaces.put(o, now) && (old == nil || !maps.Equal(old.Labels, o.Labels)) {
		w.out.namespaces = nil
		w.poke()
	}
}

func (w *World) deleteNamespace(o *corev1.Namespace, now time.Time) {
	if w.namespaces.drop(o, now) {
		w.out.namespaces = nil
		w.poke()
	}
}

// renderNamespaces lists the namespaces by name.
func (w *World) renderNamespaces() []model.Namespace {
	if w.out.namespaces == nil {
		w.out.namespaces = make([]model.Namespace, 0, len(w.namespaces.live))
		for _, ns := range w.namespaces.live {
			w.out.namespaces = append(w.out.namespaces, translate.Namespace(ns))
		}
		slices.SortFunc(w.out.namespaces, func(a, b model.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	}
	return w.out.namespaces
}
