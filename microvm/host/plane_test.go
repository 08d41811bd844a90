package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/image/build"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
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
	c.Name = "main"
	return tr.podOfMany(t, name, nil, c)
}

// podOfMany creates a pod with these containers and starts it on the host.
func (tr *trial) podOfMany(t *testing.T, name string, init []corev1.Container, all ...corev1.Container) (
	microvm.Spec, netip.Addr,
) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.InitContainers = init
	return tr.begin(t, pod, all...)
}

// begin creates a pod with these containers and starts it on the host.
func (tr *trial) begin(t *testing.T, pod *corev1.Pod, all ...corev1.Container) (microvm.Spec, netip.Addr) {
	t.Helper()
	pod.Spec.SchedulerName, pod.Spec.TerminationGracePeriodSeconds = fargate.SchedulerName, ptr.To[int64](0)
	pod.Spec.NodeName = tr.namespace // objects for the service account are read once the pod is bound
	pod.Spec.Containers = all
	pod, err := tr.kube.CoreV1().Pods(tr.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
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
	tr.waitsIn(t, id, "main", reason, text)
}

// waitsIn waits until a container is waiting for this reason, with a message that contains the text.
func (tr *trial) waitsIn(t *testing.T, id, container, reason, text string) {
	t.Helper()
	planetest.Eventually(t, container+" "+reason+" "+text, func(ctx context.Context) error {
		s, err := tr.Status(ctx, id)
		if err != nil {
			return err
		}
		all := slices.Concat(s.Pod.InitContainerStatuses, s.Pod.ContainerStatuses)
		for _, c := range all {
			if w := c.State.Waiting; c.Name == container && w != nil && w.Reason == reason && strings.Contains(w.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
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
	profile := corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("own.json")}
	filtered, _ := tr.pod(t, "filtered", corev1.Container{
		Image: "example.local/there:1", SecurityContext: &corev1.SecurityContext{SeccompProfile: &profile},
	})
	tr.waits(t, filtered.ID, "CreateContainerError", `cannot load seccomp profile "/var/lib/kubelet/seccomp/own.json"`)
	for _, s := range []microvm.Spec{never, nowhere, misnamed, settings, filtered} {
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
	if _, err := tr.kube.CoreV1().Pods(tr.namespace).UpdateEphemeralContainers(t.Context(), pod.Name, pod,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the ConfigMap was looked for", func(ctx context.Context) error {
		if supply(ctx, m, &sandbox.VM{}, m.current()) {
			return errors.New("nothing is left to do")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if w := m.waiting["debugger"]; w.Message != `configmap "own" not found` {
			return fmt.Errorf("it waits with %q", w.Message)
		}
		return nil
	})
	tr.goes(t, spec)
}

// A pod begins when one of its containers can run. Those that cannot are held back, say why, and are tried on.
func TestAPodBeginsWithoutSomeContainers(t *testing.T) {
	tr := newTrial(t)
	ref := corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}}
	good := corev1.Container{Name: "good", Image: "example.local/there:1"}
	pulled := corev1.Container{Name: "pulled", Image: "example.local/absent:1", ImagePullPolicy: corev1.PullNever}
	configured := corev1.Container{
		Name: "configured", Image: "example.local/there:1", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &ref}},
	}
	begins, _ := tr.podOfMany(t, "begins", nil, pulled, configured, good)
	tr.waitsIn(t, begins.ID, "good", "ContainerCreating", "this machine is out of order")
	tr.waitsIn(t, begins.ID, "pulled", "ErrImageNeverPull", "not present with pull policy of Never")
	tr.waitsIn(t, begins.ID, "configured", "CreateContainerConfigError", `configmap "later" not found`)
	waits, _ := tr.podOfMany(t, "waits", []corev1.Container{pulled}, good)
	tr.waitsIn(t, waits.ID, "pulled", "ErrImageNeverPull", "")
	tr.goes(t, begins)
	before := tr.attempts.Load()
	tr.waitsIn(t, waits.ID, "good", "PodInitializing", "")
	if n := tr.attempts.Load(); n != before {
		t.Errorf("a pod whose first container cannot run was started %d times", n-before)
	}

	pod := waits.Pod.DeepCopy()
	pod.Spec.InitContainers[0].Image = good.Image // a user corrects it
	if _, err := tr.kube.CoreV1().Pods(tr.namespace).Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	tr.waitsIn(t, waits.ID, "pulled", "ContainerCreating", "this machine is out of order")
	tr.goes(t, waits)
}

// A volume whose image cannot be pulled holds back only the containers that mount it, as with a kubelet.
func TestAnImageVolumeHoldsBackWhatMountsIt(t *testing.T) {
	tr := newTrial(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
	source := corev1.ImageVolumeSource{Reference: "example.local/absent:1", PullPolicy: corev1.PullNever}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Image: &source}}}
	spec, _ := tr.begin(t, pod, corev1.Container{Name: "without", Image: "example.local/there:1"}, corev1.Container{
		Name: "with", Image: "example.local/there:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	})
	tr.waitsIn(t, spec.ID, "without", "ContainerCreating", "this machine is out of order")
	tr.waitsIn(t, spec.ID, "with", "ErrImageNeverPull", "not present with pull policy of Never")
	m, err := tr.microVM(spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	translated, _, err := m.translate(m.current())
	if err != nil || len(translated.Volumes) != 1 || len(translated.Containers) != 2 {
		t.Fatalf("%+v, %v", translated, err)
	}
	if c := translated.Containers[0]; c.Held != nil {
		t.Errorf("%+v", c)
	}
	if c := translated.Containers[1]; c.Held == nil || c.Held.Reason != "ErrImageNeverPull" {
		t.Errorf("%+v", c)
	}
	tr.goes(t, spec)
}

// A pod whose host name its kernel would refuse waits and says why, as with a kubelet.
func TestAHostNameThatIsTooLong(t *testing.T) {
	tr := newTrial(t)
	tr.o.Resolve = func(_ *corev1.Pod, network *wire.Network) { network.Domain = strings.Repeat("d", 61) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.SetHostnameAsFQDN, pod.Spec.RestartPolicy = ptr.To(true), corev1.RestartPolicyNever
	spec, _ := tr.begin(t, pod, corev1.Container{Name: "main", Image: "example.local/there:1"})
	tr.waits(t, spec.ID, "ContainerCreating", "is too long (64 characters is the max, 65 characters requested)")
	tr.events.has(t, "FailedCreatePodSandBox: Failed to create the microVM: failed to construct FQDN")
	if s, err := tr.Status(t.Context(), spec.ID); err != nil || s.Pod.Phase != corev1.PodPending {
		t.Errorf("%+v, %v", s, err)
	}
	tr.goes(t, spec)
}
