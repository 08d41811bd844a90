package apisim

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Load stores an object unchanged, with status, UID and times, like restoring a backup: nothing is defaulted. It
// replaces an existing object of the same name. The object may share parts with other objects: nobody modifies them.
func (s *Server) Load(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(kinds()[resource])
	s.put(t, t.items[key(o.GetNamespace(), o.GetName())], o, "load")
}

// Keep makes each resource keep about n changes, at most twice as many. A watch from an earlier revision expires, as
// after etcd's compaction. 0 keeps all changes.
func (s *Server) Keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = n
}

// trim drops the oldest changes once there are twice as many as keep.
func (t *table) trim(keep int) {
	if keep == 0 || len(t.log) < 2*keep {
		return
	}
	gone := len(t.log) - keep
	t.trimmed, t.since = t.trimmed+gone, t.log[gone-1].revision
	t.log = slices.Clone(t.log[gone:])
}
