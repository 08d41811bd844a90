package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/kubelet"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Kubelet is the kubelet of the Nodes of a host's microVMs. It implements kubelet.Backend and metricsapi.Source.
type Kubelet struct{ h *Host }

// Kubelet returns the kubelet of the host's microVMs.
func (h *Host) Kubelet() Kubelet { return Kubelet{h} }

// NodeAt implements kubelet.Backend.
func (k Kubelet) NodeAt(local netip.AddrPort) (string, bool) {
	if m := k.h.find(func(m *microVM) bool { return k.h.kubeletAt(m.record.address()) == local }); m != nil {
		return k.h.node(m.record), true
	}
	return "", false
}

// Pod implements kubelet.Backend. Of several pods of that name, it returns the newest; see podStore.
func (k Kubelet) Pod(namespace, name string) (*corev1.Pod, bool) {
	var newest *corev1.Pod
	for _, m := range k.h.all() {
		if m.record.Namespace != namespace || m.record.Name != name {
			continue
		}
		if pod := m.reported(); pod != nil && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest, newest != nil
}

// Pods implements kubelet.Backend and metricsapi.Source.
func (k Kubelet) Pods(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, m := range k.h.all() {
		if k.h.node(m.record) == node {
			if pod := m.reported(); pod != nil {
				out = append(out, pod)
			}
		}
	}
	return out
}

// reported returns the pod with the status that the host knows, which may be newer than the API server's; nil if the
// API server has no such pod.
func (m *microVM) reported() *corev1.Pod {
	pod := m.h.podOf(m.record.UID)
	if pod == nil {
		return nil
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = m.h.node(m.record)
	s := m.status(pod).Pod
	pod.Status.Phase, pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = s.Phase, s.InitContainerStatuses,
		s.ContainerStatuses
	pod.Status.EphemeralContainerStatuses = s.EphemeralContainerStatuses
	return pod
}

// vmOf returns the virtual machine of a pod.
func (k Kubelet) vmOf(pod *corev1.Pod) (*sandbox.VM, error) {
	if m := k.h.find(func(m *microVM) bool { return m.record.UID == pod.UID }); m != nil {
		if vm := m.machine(); vm != nil {
			return vm, nil
		}
	}
	return nil, errors.New("its microVM does not run")
}

// flushLimit is how long a reader of a log waits for the last lines of an ended container.
const flushLimit = 5 * time.Second

// Log implements kubelet.Backend.
func (k Kubelet) Log(pod *corev1.Pod, container string, previous bool) (kubelet.LogFile, error) {
	vm, err := k.vmOf(pod)
	if err != nil {
		return kubelet.LogFile{}, err
	}
	run := -1
	if s := k.statusOf(pod, container); s != nil {
		last, before := podspec.Runs(s)
		run = last
		if previous {
			run = before
		}
	}
	if run < 0 {
		return kubelet.LogFile{}, fmt.Errorf("container %q has no such run", container)
	}
	path, err := vm.LogFile(container, run)
	if err != nil {
		return kubelet.LogFile{}, err
	}
	flush := sync.OnceFunc(func() { // the guest may not have sent the last lines yet
		ctx, cancel := context.WithTimeout(k.h.ctx, flushLimit)
		defer cancel()
		_ = vm.Flush(ctx) // fails for an ended guest, which was flushed before
	})
	return kubelet.LogFile{Path: path, Running: func() bool {
		if runs(vm, container, run) {
			return true
		}
		flush()
		return false
	}}, nil
}

// statusOf returns the status of a container, even between two virtual machines of its pod.
func (k Kubelet) statusOf(pod *corev1.Pod, container string) *wire.ContainerStatus {
	m := k.h.find(func(m *microVM) bool { return m.record.UID == pod.UID })
	if m == nil {
		return nil
	}
	return containerOf(m.observe(m.current()).Pod, container)
}

func containerOf(pod wire.PodStatus, name string) *wire.ContainerStatus {
	if i := slices.IndexFunc(pod.Containers, func(c wire.ContainerStatus) bool { return c.Name == name }); i >= 0 {
		return &pod.Containers[i]
	}
	return nil
}

// runs reports whether a run of a container has not ended yet.
func runs(vm *sandbox.VM, container string, run int) bool {
	status, _ := vm.Status()
	s := containerOf(status.Pod, container)
	return s != nil && s.State == wire.Running && s.Restarts == run
}

// Exec implements kubelet.Backend.
func (k Kubelet) Exec(ctx context.Context, pod *corev1.Pod, container string, argv []string, s kubelet.Streams) error {
	vm, err := k.vmOf(pod)
	if err != nil {
		return err
	}
	code, err := vm.Exec(ctx, container, argv, s.TTY, streams(ctx, s))
	if err == nil && code != 0 {
		err = kubelet.ExitError(code)
	}
	return err
}

// Attach implements kubelet.Backend.
func (k Kubelet) Attach(ctx context.Context, pod *corev1.Pod, container string, s kubelet.Streams) error {
	vm, err := k.vmOf(pod)
	if err != nil {
		return err
	}
	return vm.Attach(ctx, container, streams(ctx, s))
}

// streams converts streams to those of package sandbox.
func streams(ctx context.Context, s kubelet.Streams) sandbox.Streams {
	out := sandbox.Streams{Stdin: s.In}
	if s.Out != nil { // a nil io.WriteCloser would become a non-nil io.Writer
		out.Stdout = s.Out
	}
	if s.Err != nil {
		out.Stderr = s.Err
	}
	if s.Resize != nil {
		sizes := make(chan wire.Size)
		out.Resize = sizes
		go func() {
			defer close(sizes)
			for size := range s.Resize {
				select {
				case sizes <- wire.Size{Columns: size.Width, Rows: size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return out
}

// PortForward implements kubelet.Backend.
func (k Kubelet) PortForward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error {
	vm, err := k.vmOf(pod)
	if err != nil {
		return err
	}
	return vm.PortForward(ctx, int(port), stream)
}

// DialPod connects to a TCP port of the microVM with the given address, as port-forward does: in user mode there is
// no other way to reach it. The connection ends with ctx or with Close.
func (k Kubelet) DialPod(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	m := k.h.find(func(m *microVM) bool { return m.record.address() == at.Addr() })
	if m == nil || m.machine() == nil {
		return nil, fmt.Errorf("connect to %s: no microVM of this host has the address", at)
	}
	vm := m.machine()
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		_ = vm.PortForward(ctx, int(at.Port()), theirs) // the reader sees the connection end
	}()
	return ours, nil
}

// Nodes implements metricsapi.Source.
func (k Kubelet) Nodes() []*corev1.Node {
	var out []*corev1.Node
	if k.h.nodes == nil {
		return nil
	}
	for _, o := range k.h.nodes.GetStore().List() {
		if node, ok := o.(*corev1.Node); ok {
			out = append(out, node)
		}
	}
	return out
}
