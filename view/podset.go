package view

import toolscache "k8s.io/client-go/tools/cache"

// byPlace indexes pods by the Node they are bound to; "" for those without one. Ended pods are not indexed.
const byPlace = "place"

// newPods stores pods by UID: a pod that was created again under the same name is a different one.
func newPods() toolscache.Indexer {
	uid := func(o any) (string, error) { return o.(*Pod).UID, nil }
	return toolscache.NewIndexer(uid, toolscache.Indexers{byPlace: func(o any) ([]string, error) {
		if p := o.(*Pod); p.Phase != Ended {
			return []string{p.Node}, nil
		}
		return nil, nil
	}})
}

// SetPod replaces the facts about the pod with its UID.
func (m *Model) SetPod(p *Pod) {
	defer m.change()()
	m.tell(func(f *mirror) { f.pod(p) })
	if old := m.podOf(p.UID); old != nil {
		m.count(old, -1)
	}
	_ = m.pods.Update(p) // every pod has a key
	m.count(p, +1)
	m.rolled(p)
}

// DeletePod removes the pod with a UID, and the event about it.
func (m *Model) DeletePod(uid string) {
	defer m.change()()
	m.tell(func(f *mirror) { f.unpod(uid) })
	old := m.podOf(uid)
	if old == nil {
		return
	}
	_ = m.pods.Delete(old)
	m.count(old, -1)
	about := Object{"Pod", old.Namespace, old.Name}
	if s, ok := m.said[about]; ok && s.concerns(uid) {
		delete(m.said, about)
	}
}

// podOf returns the pod with a UID; nil if there is none.
func (t *podTable) podOf(uid string) *Pod {
	o, _, _ := t.pods.GetByKey(uid) // never fails for an Indexer
	p, _ := o.(*Pod)
	return p
}

// podsAt returns the pods that are bound to a Node, in no order, or those without one for "".
func (t *podTable) podsAt(node string) []*Pod {
	list, err := t.pods.ByIndex(byPlace, node)
	if err != nil {
		panic("view: " + err.Error()) // the index exists
	}
	out := make([]*Pod, len(list))
	for i, o := range list {
		out[i] = o.(*Pod)
	}
	return out
}

// count adds a pod to the sums, or subtracts it.
func (m *Model) count(p *Pod, sign int) {
	if p.Phase == Ended {
		return
	}
	m.phases[p.Phase] += sign
	if p.Node == "" {
		m.waiting += sign
		return
	}
	m.bound += sign
	u := m.uses[p.Node]
	if u == nil {
		u = &use{}
		m.uses[p.Node] = u
	}
	u.pods += sign
	u.requests.add(&p.Requests, int64(sign))
	switch {
	case u.entry != nil:
		m.recount(u.entry)
	case u.pods == 0:
		delete(m.uses, p.Node)
	}
}

// use is what the pods of a node request.
type use struct {
	requests Amounts
	pods     int
	entry    *nodeEntry // nil while no Node of that name is known
}
