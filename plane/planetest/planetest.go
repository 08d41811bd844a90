// Package planetest gives tests a real control plane: one per test binary, since a start costs seconds of CPU.
//
//	func TestMain(m *testing.M) { planetest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		p := planetest.Start(t)
//		ns := planetest.Namespace(t, p)
//		…
//	}
package planetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/plane"
)

// startLimit is generous: at a load of 30 a start took 27 s.
const startLimit = 3 * time.Minute

var shared struct {
	once  sync.Once
	dir   string
	plane *plane.Plane
	err   error
}

// Main runs a package's tests, stops the shared control plane if one was started, and exits.
func Main(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

func stop() {
	if shared.plane != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := shared.plane.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
}

// Start returns the control plane that all tests of this binary share. The first call starts it in a temporary
// directory and installs the CRDs of Nodeless. Tests must not stop it and should use their own namespace (see
// Namespace); objects without a namespace, such as Nodes, need unique names and a t.Cleanup that deletes them. Under
// -short, Start skips the test.
func Start(t testing.TB) *plane.Plane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane; -short skips it")
	}
	shared.once.Do(start)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plane
}

func start() {
	if shared.dir, shared.err = os.MkdirTemp("", "planetest-"); shared.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if shared.plane, shared.err = plane.Start(ctx, plane.Options{DataDir: shared.dir}); shared.err != nil {
		return
	}
	shared.err = crds.Install(ctx, shared.plane.RESTConfig())
}

// Namespace creates a namespace with a unique name for one test, waits until pods can be created in it (it has its
// ServiceAccount) and deletes it at the end of the test.
func Namespace(t testing.TB, p *plane.Plane) string {
	t.Helper()
	c, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	ns, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace: %v", err)
		}
	})
	Eventually(t, "ServiceAccount of namespace "+ns.Name, func(ctx context.Context) error {
		_, err := c.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// Eventually polls until ok returns nil, and fails the test after four minutes with the last two errors: the very last
// one often says only that the time is up.
func Eventually(t testing.TB, what string, ok func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var before error
	for {
		err := ok(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v; before that: %v", what, err, before)
		case <-tick.C:
		}
		before = err
	}
}
