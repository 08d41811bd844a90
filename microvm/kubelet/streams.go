package kubelet

import (
	"context"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// The kubelet's defaults: streamingConnectionIdleTimeout of KubeletConfiguration, and the creation timeout of its
// streaming server.
const (
	streamIdle     = 4 * time.Hour
	streamCreation = 30 * time.Second
)

// session adapts one exec, attach or port-forward to the streaming library.
type session struct {
	backend Backend
	pod     *corev1.Pod
}

var (
	_ remotecommand.Executor    = session{}
	_ remotecommand.Attacher    = session{}
	_ portforward.PortForwarder = session{}
)

// podHandler serves a path about a pod.
type podHandler func(http.ResponseWriter, *http.Request, *corev1.Pod)

// unlessRefused refuses a stream before it is opened, so that kubectl shows the reason and nothing else.
func (s *Server) unlessRefused(what string, serve podHandler) podHandler {
	refuser, ok := s.backend.(Refuser)
	if !ok {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) {
		if err := refuser.Refuse(pod, what); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		serve(w, r, pod)
	}
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) {
	argv := r.URL.Query()["command"]
	if len(argv) == 0 {
		http.Error(w, "no command: name one behind --", http.StatusBadRequest)
		return
	}
	if o, ok := remoteOptions(w, r); ok {
		remotecommand.ServeExec(w, r, session{s.backend, pod}, pod.Name, string(pod.UID), r.PathValue("container"), argv, o,
			streamIdle, streamCreation, remotecommand.SupportedStreamingProtocols)
	}
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) {
	if o, ok := remoteOptions(w, r); ok {
		remotecommand.ServeAttach(w, r, session{s.backend, pod}, pod.Name, string(pod.UID), r.PathValue("container"), o,
			streamIdle, streamCreation, remotecommand.SupportedStreamingProtocols)
	}
}

func remoteOptions(w http.ResponseWriter, r *http.Request) (*remotecommand.Options, bool) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return o, err == nil
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) {
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, session{s.backend, pod}, pod.Name, string(pod.UID), o, streamIdle, streamCreation,
		portforward.SupportedProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (s session) ExecInContainer(ctx context.Context, _, _, container string, argv []string, in io.Reader, out,
	err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.backend.Exec(ctx, s.pod, container, argv, Streams{In: in, Out: out, Err: err, TTY: tty, Resize: resize})
}

// AttachContainer implements remotecommand.Attacher.
func (s session) AttachContainer(ctx context.Context, _, _, container string, in io.Reader, out, err io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.backend.Attach(ctx, s.pod, container, Streams{In: in, Out: out, Err: err, TTY: tty, Resize: resize})
}

// untilReplied is enough time for the reply to a stream that kubectl has opened.
const untilReplied = 200 * time.Millisecond

// PortForward implements portforward.PortForwarder.
func (s session) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	err := s.backend.PortForward(ctx, s.pod, port, stream)
	if err != nil {
		// The library then resets the stream, possibly before it has told kubectl that it accepts it (portForward in
		// httpstream.go does not wait for replySent), and kubectl would never read the error.
		_ = clock.Sleep(ctx, clock.Real{}, untilReplied)
	}
	return err
}
