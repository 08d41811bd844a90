package plane

import (
	"context"
	"fmt"
	"path"
	"time"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// awaitAPIServer waits for /readyz: storage is reachable and the default roles exist.
func (p *Plane) awaitAPIServer(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	began, checked := time.Now(), false
	return p.await(ctx, apiserver, func(ctx context.Context) error {
		_, err := c.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err != nil && !checked && time.Since(began) > slowStart {
			checked = true
			if damage := p.etcd.checkObjects(ctx); damage != nil {
				p.fail("etcd", &CorruptError{Dir: p.etcd.dir, Cause: damage})
			}
		}
		return err
	})
}

// slowStart is how long the API server may take before its data is checked; it usually needs 2 s.
const slowStart = 10 * time.Second

// awaitClients waits until the scheduler's caches have synced and the controllers have created the ServiceAccount
// without which no pod can be created in the namespace default.
func (p *Plane) awaitClients(ctx context.Context, synced <-chan struct{}) error {
	c, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	err = p.await(ctx, controllerManager+" (ServiceAccount default/default)", func(ctx context.Context) error {
		_, err := c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-synced:
		return nil
	case <-p.failed:
		return p.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w; see %s", scheduler, context.Cause(ctx), p.o.LogFile)
	}
}

// checkObjects decodes every stored object. Neither checkFiles nor the API server reports an object whose own bytes
// have changed: the API server retries for ever and never becomes ready. So a slow start calls checkObjects.
func (s *store) checkObjects(ctx context.Context) error {
	return guard(func() error {
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
