package apisim

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// record is one version of an object. Nobody modifies it.
type record struct {
	object   *unstructured.Unstructured
	revision uint64
	text     []byte // as JSON
}

// event is one change of a table.
type event struct {
	revision uint64
	was, is  *record // one of them nil if the object came or went
}

// table holds the objects of one resource and every change that there ever was, or the last ones: see Server.Keep.
type table struct {
	kind    *kind
	items   map[string]*record // by namespace/name
	log     []event
	trimmed int           // how many changes came before those in the log
	since   uint64        // the revision of the last of those
	changed chan struct{} // closed and replaced at every change
}

func key(namespace, name string) string { return namespace + "/" + name }

// table is the one of a resource. The caller holds the lock.
func (s *Server) table(k *kind) *table {
	t := s.tables[k.resource]
	if t == nil {
		t = &table{kind: k, items: map[string]*record{}, changed: make(chan struct{})}
		s.tables[k.resource] = t
	}
	return t
}

// put stores a new version of an object, or takes it away if is is nil, and gives the version; was is nil if it is
// new. The object becomes the store's own.
func (s *Server) put(t *table, was *record, is *unstructured.Unstructured, by string) *record {
	s.revision++
	e := event{revision: s.revision, was: was}
	last := is
	if is == nil {
		last = was.object.DeepCopy()
	}
	last.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	text, err := json.Marshal(last.Object)
	if err != nil {
		panic(fmt.Sprintf("apisim: an object that is not JSON: %v", err)) // it was decoded from JSON
	}
	r := &record{object: last, revision: s.revision, text: text}
	at := key(last.GetNamespace(), last.GetName())
	if is == nil {
		delete(t.items, at)
		e.was = r // the last state, with the revision of its end, is what watchers are told
	} else {
		t.items[at], e.is = r, r
	}
	t.log = append(t.log, e)
	t.trim(s.keep)
	close(t.changed)
	t.changed = make(chan struct{})
	for _, f := range s.observers {
		var before, after *unstructured.Unstructured
		if was != nil {
			before = was.object
		}
		if e.is != nil {
			after = e.is.object
		}
		f(Change{Resource: t.kind.resource, Was: before, Is: after, By: by})
	}
	return r
}

// at is what the table held at a revision.
func (t *table) at(revision uint64) map[string]*record {
	items := map[string]*record{}
	for _, e := range t.log {
		if e.revision > revision {
			break
		}
		if e.is != nil {
			items[key(e.is.object.GetNamespace(), e.is.object.GetName())] = e.is
		} else {
			delete(items, key(e.was.object.GetNamespace(), e.was.object.GetName()))
		}
	}
	return items
}

// seenBy is the event as somebody sees it who looks through a filter, "" if he does not see it.
func (e event) seenBy(f filter) (watch.EventType, *record) {
	before, after := e.was != nil && f.matches(e.was.object), e.is != nil && f.matches(e.is.object)
	switch {
	case before && after:
		return watch.Modified, e.is
	case after:
		return watch.Added, e.is
	case before && e.is != nil: // it no longer matches: its end, with the revision of the change
		gone := e.was.object.DeepCopy()
		gone.SetResourceVersion(strconv.FormatUint(e.revision, 10))
		text, err := json.Marshal(gone.Object)
		if err != nil {
			panic(err)
		}
		return watch.Deleted, &record{object: gone, revision: e.revision, text: text}
	case before:
		return watch.Deleted, e.was
	}
	return "", nil
}

// Change is one write that took effect.
type Change struct {
	Resource schema.GroupVersionResource
	Was, Is  *unstructured.Unstructured // nil if the object came or went; not to be modified
	By       string                     // the writer's user agent
}
