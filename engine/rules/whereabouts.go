package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// run is some pods of a shape on a node; several runs for the same node add up.
type run struct{ node, n int32 }

// whereabouts records where pods are, by shape, so that counters created later can count them. The pods of the
// snapshot's nodes are gathered when the first counter is created; most plans for a pod or two create none.
type whereabouts struct {
	gathered  bool
	bound     [][]run      // from the beginning
	placed    [][]run      // since then
	leaving   [][]run      // terminating: topology spread ignores them
	compactAt []int        // by shape: number of runs of placed at which they are merged
	under     *whereabouts // of the State that this one was forked from, nil if none
}

func newWhereabouts(shapes int) whereabouts {
	return whereabouts{
		bound: make([][]run, shapes), placed: make([][]run, shapes), leaving: make([][]run, shapes),
		compactAt: make([]int, shapes),
	}
}

// counts reports whether kube-scheduler's filters see the pod.
func (p *podIndex) counts(pod *model.BoundPod) bool {
	return pod.Shape >= 0 && pod.Shape < len(p.s.Shapes) && !pod.Terminal
}

// gather sorts the pods of all nodes by shape.
func (p *podIndex) gather() {
	w := &p.where
	if w.gathered {
		return
	}
	w.gathered = true
	if p.base != nil && len(p.added) == 0 {
		p.base.gather()
		w.under = &p.base.where
		return
	}
	total := 0
	for node := range p.Nodes() {
		total += len(p.Node(node).Pods)
	}
	type podRun struct {
		shape int32
		run
	}
	all := make([]podRun, 0, total)
	ends := make([]int32, len(p.s.Shapes)) // first the number of runs by shape, then the end of the shape's runs so far
	for node := range p.Nodes() {
		pods := p.Node(node).Pods
		for i := range pods {
			pod := &pods[i]
			switch last := len(all) - 1; {
			case !p.counts(pod):
			case pod.Terminating:
				w.leaving[pod.Shape] = append(w.leaving[pod.Shape], run{int32(node), 1})
			case last >= 0 && all[last].shape == int32(pod.Shape) && all[last].node == int32(node):
				all[last].n++
			default:
				all = append(all, podRun{int32(pod.Shape), run{int32(node), 1}})
				ends[pod.Shape]++
			}
		}
	}
	runs, at := make([]run, len(all)), int32(0)
	for shape, n := range ends {
		w.bound[shape] = runs[at : at+n : at+n]
		at, ends[shape] = at+n, at
	}
	for i := range all {
		shape := all[i].shape
		runs[ends[shape]] = all[i].run
		ends[shape]++
	}
}

// remember records pods for counters that are created later.
func (w *whereabouts) remember(shape int, r run) {
	runs := w.placed[shape]
	if last := len(runs) - 1; last >= 0 && runs[last].node == r.node {
		if runs[last].n += r.n; runs[last].n == 0 {
			w.placed[shape] = runs[:last]
		}
		return
	}
	runs = append(runs, r)
	if len(runs) > max(w.compactAt[shape], 64) {
		runs = compact(runs)
		w.compactAt[shape] = 2 * len(runs)
	}
	w.placed[shape] = runs
}

func compact(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int { return int(a.node) - int(b.node) })
	out := runs[:0]
	for _, r := range runs {
		if last := len(out) - 1; last >= 0 && out[last].node == r.node {
			out[last].n += r.n
			continue
		}
		out = append(out, r)
	}
	return slices.DeleteFunc(out, func(r run) bool { return r.n == 0 })
}

// of returns the runs of a shape; with leaving, also those of terminating pods.
func (w *whereabouts) of(shape int, leaving bool) [][]run {
	out := [][]run{w.bound[shape], w.placed[shape]}
	if leaving {
		out = append(out, w.leaving[shape])
	}
	if w.under != nil {
		out = append(out, w.under.of(shape, leaving)...)
	}
	return out
}

// addBound counts the pods of an added node.
func (st *State) addBound(node int, pods []model.BoundPod) {
	w := &st.pods.where
	for i := range pods {
		p := &pods[i]
		if !st.pods.counts(p) {
			continue
		}
		if r := (run{int32(node), 1}); p.Terminating {
			w.leaving[p.Shape] = append(w.leaving[p.Shape], r)
		} else {
			w.remember(p.Shape, r)
		}
		st.record(p.Shape, node, 1, p.Terminating)
	}
}
