package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/plane/planetest"
)

// joined is a host that gets its pods from a source, and has no API server.
func joined(t *testing.T, source cache.ListerWatcher) *Host {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "ca"}, key)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{
		Dir: filepath.Join(t.TempDir(), "microvms"), Name: "here", Kube: nowhere, ClientCA: bundle, Recorder: &heard{},
		Pods:   source,
		Driver: func() (vmm.Driver, error) { return broken{attempts: &atomic.Int32{}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, h.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// pods is a source that begins with these pods, and has the changes of its FakeWatcher.
type pods struct {
	*watch.FakeWatcher
	first []corev1.Pod
}

func (p pods) source() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: p.first}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				go func() {
					for i := range p.first {
						p.Add(&p.first[i])
					}
					p.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
						ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
					}})
				}()
			}
			return p, nil
		},
	}
}

// A StatefulSet's pod may be created again on a host on which the MicroVM of its predecessor still terminates.
func TestPodsOfOneNameAreToldApart(t *testing.T) {
	pod := func(uid types.UID, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web-0", UID: uid, ResourceVersion: "2"}}
		if change != nil {
			change(p)
		}
		return p
	}
	knows := func(h *Host, uid types.UID, want func(*corev1.Pod) bool) {
		t.Helper()
		planetest.Eventually(t, "the host knows pod "+string(uid), func(context.Context) error {
			if !want(h.podOf(uid)) {
				return errors.New("it does not")
			}
			return nil
		})
	}
	there := func(p *corev1.Pod) bool { return p != nil }
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "node" }
	p := pods{watch.NewFake(), []corev1.Pod{*pod("x", nil), *pod("y", nil)}}
	h := joined(t, p.source())
	knows(h, "x", there)
	knows(h, "y", there)
	p.Add(pod("a", nil))
	p.Add(pod("b", nil))
	p.Modify(pod("b", bound))
	p.Modify(pod("a", func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }))
	knows(h, "a", func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	knows(h, "b", func(p *corev1.Pod) bool { return p != nil && p.Spec.NodeName == "node" })
	p.Delete(pod("a", nil))
	knows(h, "a", func(p *corev1.Pod) bool { return p == nil })
	knows(h, "b", there)
}
