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
	was, is  *record // was: nil after a creation; is: nil after a deletion
}

// table holds the objects of one resource and its changes: all of them, or the latest (see Server.Keep).
type table struct {
	kind    *kind
	items   map[string]*record // by namespace/name
	log     []event
	trimmed int           // the number of changes dropped from the log
	since   uint64        // the revision of the last dropped change
	changed chan struct{} // closed and replaced at every change
}

func key(namespace, name string) string { return namespace + "/" + name }

// table returns the table of a resource. The caller holds the lock.
func (s *Server) table(k *kind) *table {
	t := s.tables[k.resource]
	if t == nil {
		t = &table{kind: k, items: map[string]*record{}, changed: make(chan struct{})}
		s.tables[k.resource] = t
	}
	return t
}

// put stores a new version of an object, or deletes the object if is is nil, and returns the version. was is nil if
// the object is new. The store takes ownership of the object.
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
		e.was = r // watchers receive the last state, with the revision of the deletion
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

// at returns the contents of the table at a revision.
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

// seenBy returns the event as it appears through a filter, or "" if it does not.
func (e event) seenBy(f filter) (watch.EventType, *record) {
	before, after := e.was != nil && f.matches(e.was.object), e.is != nil && f.matches(e.is.object)
	switch {
	case before && after:
		return watch.Modified, e.is
	case after:
		return watch.Added, e.is
	case before && e.is != nil: // it no longer matches: a deletion, with the revision of the change
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
	Was, Is  *unstructured.Unstructured // Was is nil after a creation, Is after a deletion; read-only
	By       string                     // the writer's user agent
}
