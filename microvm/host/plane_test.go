package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/image/build"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// broken is a driver that can be probed and starts nothing, for tests of what happens before a virtual machine
// starts. It counts the attempts to start one.
type broken struct {
	vmm.Driver
	attempts *atomic.Int32
}

func (broken) Probe(context.Context) (vmm.Capabilities, error) {
	return vmm.Capabilities{Driver: "none", Accelerator: "tcg"}, nil
}

func (b broken) Start(context.Context, vmm.Spec) (*vmm.Process, bool, error) {
	b.attempts.Add(1)
	return nil, false, errors.New("this machine is out of order")
}

// heard records the events.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) Event(_ runtime.Object, _, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, reason+": "+message)
}

func (h *heard) has(t *testing.T, text string) {
	t.Helper()
	planetest.Eventually(t, "event "+text, func(context.Context) error { // it follows the status
		h.mu.Lock()
		defer h.mu.Unlock()
		if all := strings.Join(h.all, "\n"); !strings.Contains(all, text) {
			return fmt.Errorf("the events are\n%s", all)
		}
		return nil
	})
}

// trial is a host in a cluster. It has the image example.local/there:1 and cannot start virtual machines.
type trial struct {
	*Host
	dir       string
	plane     *plane.Plane
	kube      kubernetes.Interface
	namespace string
	events    heard
	attempts  atomic.Int32 // to start a virtual machine
	end       func()
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	p := planetest.Start(t)
	kube, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{dir: t.TempDir(), plane: p, kube: kube, namespace: planetest.Namespace(t, p)}
	// Its pods are bound to a Node of this name: pods of a Node that does not exist are collected.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tr.namespace}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello"), []byte("hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := build.Layout(filepath.Join(tr.dir, "layouts", "local"),
		build.Options{Dir: root, Tag: "example.local/there:1", Config: v1.Config{Cmd: []string{"/hello"}}}); err != nil {
		t.Fatal(err)
	}
	tr.start(t)
	t.Cleanup(func() { tr.end() })
	return tr
}

// start opens the host, as a new host process would.
func (tr *trial) start(t *testing.T) {
	t.Helper()
	h, err := New(Options{
		Dir: filepath.Join(tr.dir, "microvms"), Name: "here", Kube: tr.kube, ClientCA: tr.plane.CABundle(),
		Recorder: &tr.events,
		Driver:   func() (vmm.Driver, error) { return broken{attempts: &tr.attempts}, nil },
		Images:   image.Options{Sources: []string{filepath.Join(tr.dir, "layouts")}},
		Pauses:   Pauses{FirstPull: 100 * time.Millisecond, Config: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.Host = h
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	tr.end = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, h.Close()); err != nil {
			t.Error(err)
		}
	})
	planetest.Eventually(t, "the host is ready", func(context.Context) error {
		if d := h.Describe(); !d.Ready {
			return errors.New(d.Message)
		}
		return nil
	})
}

// pod creates a pod and starts it on the host.
func (tr *trial) pod(t *testing.T, name string, c corev1.Container) (microvm.Spec, netip.Addr) {
	t.Helper()
	grace := int64(0)
	c.Name = "main"
	pod, err := tr.kube.CoreV1().Pods(tr.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: fargate.SchedulerName, TerminationGracePeriodSeconds: &grace,
			NodeName:   tr.namespace, // objects for the service account are read once the pod is bound
			Containers: []corev1.Container{c},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := microvm.Spec{
		ID: "microvm-" + string(pod.UID), Pod: pod,
		Size: fargate.Size{MilliCPU: 100, MemoryBytes: 128 << 20, StorageBytes: 64 << 20},
	}
	at, err := tr.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec, at
}

// waits waits until the pod's container is waiting for this reason, with a message that contains the text.
func (tr *trial) waits(t *testing.T, id, reason, text string) {
	t.Helper()
	planetest.Eventually(t, reason+" "+text, func(ctx context.Context) error {
		s, err := tr.Status(ctx, id)
		if err != nil {
			return err
		}
		for _, c := range s.Pod.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason == reason && strings.Contains(w.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Pod.ContainerStatuses)
	})
}

func TestWhatComesBeforeAMachineIsToldAndTriedAgain(t *testing.T) {
	tr := newTrial(t)
	never, _ := tr.pod(t, "never", corev1.Container{Image: "example.local/absent:1", ImagePullPolicy: corev1.PullNever})
	tr.waits(t, never.ID, "ErrImageNeverPull", "not present with pull policy of Never")
	nowhere, _ := tr.pod(t, "nowhere", corev1.Container{Image: "127.0.0.1:1/absent:1"})
	tr.waits(t, nowhere.ID, "ErrImagePull", "cannot be reached")
	tr.waits(t, nowhere.ID, "ImagePullBackOff", `Back-off pulling image "127.0.0.1:1/absent:1"`)
	misnamed, _ := tr.pod(t, "misnamed", corev1.Container{Image: "Not A Name"})
	tr.waits(t, misnamed.ID, "InvalidImageName", "invalid image name")

	ref := corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
	settings, _ := tr.pod(t, "settings",
		corev1.Container{Image: "example.local/there:1", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &ref}}})
	tr.waits(t, settings.ID, "CreateContainerConfigError", `configmap "settings" not found`)
	tr.events.has(t, `Failed: Error: configmap "settings" not found`)
	if _, err := tr.kube.CoreV1().ConfigMaps(tr.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tr.waits(t, settings.ID, "ContainerCreating", "this machine is out of order")
	tr.events.has(t, "FailedCreatePodSandBox: Failed to create the microVM")
	for _, s := range []microvm.Spec{never, nowhere, misnamed, settings} {
		tr.goes(t, s)
	}
}

// goes stops and removes a microVM, and checks that nothing of it is left.
func (tr *trial) goes(t *testing.T, spec microvm.Spec) {
	t.Helper()
	if err := tr.Stop(t.Context(), spec.ID, 0); err != nil {
		t.Error(err)
	}
	planetest.Eventually(t, spec.Pod.Name+" has ended", func(ctx context.Context) error {
		if s, err := tr.Status(ctx, spec.ID); err != nil || !s.Ended {
			return fmt.Errorf("%+v %w", s, err)
		}
		return nil
	})
	if err := tr.Remove(t.Context(), spec.ID); err != nil {
		t.Error(err)
	}
	if err := tr.Remove(t.Context(), spec.ID); !errors.Is(err, microvm.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := os.Stat(tr.records.file(spec.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}
}

// The same ID yields the same microVM, even in a later process. An address is released when its microVM is removed.
func TestAMicroVMIsKnownAgain(t *testing.T) {
	tr := newTrial(t)
	spec, at := tr.pod(t, "one", corev1.Container{Image: "example.local/absent:1", ImagePullPolicy: corev1.PullNever})
	if again, err := tr.Start(t.Context(), spec); err != nil || again != at {
		t.Errorf("started again: %s, %v; want %s", again, err, at)
	}
	port := tr.Describe().Kubelet(at).Port()
	tr.end()
	tr.start(t)
	if again, err := tr.Start(t.Context(), spec); err != nil || again != at {
		t.Errorf("started again by another process: %s, %v; want %s", again, err, at)
	}
	tr.waits(t, spec.ID, "ErrImageNeverPull", "")
	if is := tr.Describe().Kubelet(at); is.Port() != port || !is.Addr().IsLoopback() {
		t.Errorf("its kubelet is at %s, was at port %d", is, port)
	}
	_, other := tr.pod(t, "two", corev1.Container{Image: "example.local/absent:1", ImagePullPolicy: corev1.PullNever})
	if other == at {
		t.Errorf("two microVMs have the address %s", at)
	}
	ids, err := tr.List(t.Context())
	if err != nil || len(ids) != 2 {
		t.Errorf("list: %v %v", ids, err)
	}

	// The pod is deleted while no process runs; the microVM exists until it is removed.
	tr.end()
	if err := tr.kube.CoreV1().Pods(tr.namespace).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the pod is gone", func(ctx context.Context) error {
		if _, err := tr.kube.CoreV1().Pods(tr.namespace).Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	tr.start(t)
	if s, err := tr.Status(t.Context(), spec.ID); err != nil || !s.Ended {
		t.Errorf("%+v %v", s, err)
	}
	for _, id := range ids {
		if err := tr.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// A microVM that a later process has adopted goes on when its pod is deleted before its virtual machine has started.
func TestAnAdoptedMicroVMOutlivesItsPod(t *testing.T) {
	tr := newTrial(t)
	spec, _ := tr.pod(t, "brief", corev1.Container{Image: "example.local/there:1"})
	tr.waits(t, spec.ID, "ContainerCreating", "this machine is out of order")
	tr.end()
	tr.start(t)
	tr.waits(t, spec.ID, "ContainerCreating", "this machine is out of order")
	if err := tr.kube.CoreV1().Pods(tr.namespace).Delete(t.Context(), "brief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the host knows that the pod is gone", func(context.Context) error {
		if tr.podOf(spec.Pod.UID) != nil {
			return errors.New("it knows the pod")
		}
		return nil
	})
	before := tr.attempts.Load()
	planetest.Eventually(t, "the virtual machine is tried again", func(context.Context) error {
		if n := tr.attempts.Load() - before; n < 2 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	tr.goes(t, spec)
}

// An ephemeral container may refer to a ConfigMap to which no other container of its pod does.
func TestAnEphemeralContainerRefersToAnObjectOfItsOwn(t *testing.T) {
	tr := newTrial(t)
	spec, _ := tr.pod(t, "debugged", corev1.Container{Image: "example.local/there:1"})
	tr.waits(t, spec.ID, "ContainerCreating", "this machine is out of order")
	m, err := tr.microVM(spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	pod := spec.Pod.DeepCopy()
	ref := corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debugger", Image: "example.local/there:1", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &ref}},
	}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.addEphemeral(ctx, &sandbox.VM{}, pod)
	planetest.Eventually(t, "the ConfigMap was looked for", func(context.Context) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if w := m.waiting["debugger"]; w.Message != `configmap "own" not found` {
			return fmt.Errorf("it waits with %q", w.Message)
		}
		return nil
	})
	cancel()
	tr.goes(t, spec)
}
