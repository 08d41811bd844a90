package apisim

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Load stores an object as it is, with status, UID and times, as a backup that is restored would: nothing is defaulted.
// It replaces an object of its name. Parts of it may be shared with other objects: nobody modifies them.
func (s *Server) Load(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(kinds()[resource])
	s.put(t, t.items[key(o.GetNamespace(), o.GetName())], o, "load")
}

// Keep has each resource keep about n changes, and twice as many at most: a watch from a revision before those expires,
// as after etcd's compaction. 0 keeps all.
func (s *Server) Keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = n
}

// trim forgets changes, if there are twice as many as are to be kept.
func (t *table) trim(keep int) {
	if keep == 0 || len(t.log) < 2*keep {
		return
	}
	gone := len(t.log) - keep
	t.trimmed, t.since = t.trimmed+gone, t.log[gone-1].revision
	t.log = slices.Clone(t.log[gone:])
}
