// Package kubelet serves the kubelet's HTTP API for the nodes of many microVM pods from one process, so that kubectl logs, exec,
// attach, port-forward and top, metrics-server and Prometheus treat them as any node.
//
// Streams (SPDY and WebSocket), log files in CRI's format, delegated authentication and authorisation are Kubernetes' own libraries;
// here is what ties them to microVMs (Backend) and what a kubelet decides between them. Nobody is served without proof of who they
// are, by client certificate or token, and the API server's consent (SubjectAccessReview): the kubelet's webhook mode.
package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Backend is who runs the pods. Methods are called concurrently; pods they return are not changed.
type Backend interface {
	// NodeAt says which node a connection to this local address means: each node has an address, or a port, of its own.
	NodeAt(local netip.AddrPort) (node string, ok bool)
	// Pod gives a pod that runs here, with its current status.
	Pod(namespace, name string) (*corev1.Pod, bool)
	// Pods gives the pods of a node.
	Pods(node string) []*corev1.Pod
	// Log finds the log file of a container's run: the current or last one, or the one before it.
	Log(pod *corev1.Pod, container string, previous bool) (LogFile, error)
	// Exec runs a command in a container until it ends or the context does. A command that fails gives an ExitError.
	Exec(ctx context.Context, pod *corev1.Pod, container string, argv []string, s Streams) error
	// Attach connects to the container's first process until it ends or the context does.
	Attach(ctx context.Context, pod *corev1.Pod, container string, s Streams) error
	// PortForward copies between the stream and a TCP port of the pod until either side ends.
	PortForward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error
	// Stats measures a node and its pods.
	Stats(ctx context.Context, node string) (*stats.Summary, error)
}

// Refuser is a Backend with pods that nobody can connect to.
type Refuser interface {
	// Refuse says why what ("exec", "attach", "port-forward") cannot be done to a pod; nil if it can.
	Refuse(pod *corev1.Pod, what string) error
}

// LogFile is a container's log in the format of CRI: "TIME stdout|stderr F|P LINE".
type LogFile struct {
	Path string
	// Running says whether more may be written; a reader who follows the file stops when it is false.
	Running func() bool
}

// Streams of a process. In, Out and Err are nil when the client does not want them; with TTY, Err is always nil.
type Streams struct {
	In       io.Reader
	Out, Err io.WriteCloser
	TTY      bool
	Resize   <-chan TerminalSize // nil without TTY; closed when the client goes
}

// TerminalSize in characters.
type TerminalSize struct{ Width, Height uint16 }

// ExitError is a command that ran and failed.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// The rest makes it an exec.ExitError of k8s.io/utils, which becomes kubectl's own exit code.

// String says the same as Error.
func (e ExitError) String() string { return e.Error() }

// Exited reports that the command ended by itself.
func (e ExitError) Exited() bool { return true }

// ExitStatus is the code.
func (e ExitError) ExitStatus() int { return e.Code }
