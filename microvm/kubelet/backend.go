// Package kubelet serves the kubelet's HTTP API for the Nodes of many microVM pods from one process, so that kubectl
// logs, exec, attach, port-forward and top, metrics-server and Prometheus treat them like any node.
//
// Kubernetes' own libraries implement streams (SPDY and WebSocket), log files in CRI format, and delegated
// authentication and authorization. This package connects them to microVMs (Backend) and makes the kubelet's decisions
// between them. Every request needs a client certificate or token and the API server's consent (SubjectAccessReview):
// the kubelet's webhook mode.
package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/exec"
)

// Backend runs the pods. Its methods are called concurrently; the pods they return are not modified.
type Backend interface {
	// NodeAt returns the node that serves at a local address: each node has an address or a port of its own.
	NodeAt(local netip.AddrPort) (node string, ok bool)
	// Pod returns a pod that runs here, with its current status.
	Pod(namespace, name string) (*corev1.Pod, bool)
	// Pods returns the pods of a node.
	Pods(node string) []*corev1.Pod
	// Log returns the log file of a container's run: the current or last one, or the one before it.
	Log(pod *corev1.Pod, container string, previous bool) (LogFile, error)
	// Exec runs a command in a container until it ends or the context does. A command that fails returns an ExitError.
	Exec(ctx context.Context, pod *corev1.Pod, container string, argv []string, s Streams) error
	// Attach connects to the container's first process until it ends or the context does.
	Attach(ctx context.Context, pod *corev1.Pod, container string, s Streams) error
	// PortForward copies between the stream and a TCP port of the pod until either side ends.
	PortForward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error
	// Stats measures a node and its pods.
	Stats(ctx context.Context, node string) (*stats.Summary, error)
}

// Refuser is a Backend that may refuse streams to its pods.
type Refuser interface {
	// Refuse returns why a stream ("exec", "attach", "port-forward") to a pod is refused, or nil if it is not.
	Refuse(pod *corev1.Pod, what string) error
}

// LogFile is a container's log in CRI format: "TIME stdout|stderr F|P LINE".
type LogFile struct {
	Path string
	// Running reports whether more may be written. A reader that follows the file stops when it returns false.
	Running func() bool
}

// Streams are a process's streams. In, Out and Err are nil if the client does not want them. With TTY, Err is always
// nil.
type Streams struct {
	In       io.Reader
	Out, Err io.WriteCloser
	TTY      bool
	Resize   <-chan remotecommand.TerminalSize // nil without TTY; closed when the client disconnects
}

// ExitError returns the error of a command that ran and failed with a code, which becomes kubectl's own exit code.
func ExitError(code int) error {
	return exec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
}
