package plane

import (
	"context"
	"fmt"
	"path"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// checkObjects decodes every stored object. Neither etcd's files nor the API server tell when an object's own bytes were
// changed: the API server tries to read it for ever and never becomes ready. So this is asked when it takes its time.
func (s *store) checkObjects(ctx context.Context) error {
	return guarded(func() error {
		all, err := s.server.Server.KV().Range(ctx, []byte("/registry/"), []byte("/registry0"), mvcc.RangeOptions{})
		if err != nil {
			return fmt.Errorf("database: %w", err)
		}
		for _, kv := range all.KVs {
			_, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(kv.Value, nil, nil)
			if err != nil && !runtime.IsNotRegisteredError(err) { // custom resources are not registered
				return fmt.Errorf("stored object %s: %w", path.Clean(string(kv.Key)), err)
			}
		}
		return nil
	})
}
