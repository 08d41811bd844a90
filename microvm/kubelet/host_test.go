package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// host is a Backend whose containers are processes and files of the test.
type host struct {
	logs    string // folder
	web     string // address of port 80 of every pod
	running atomic.Bool
	measure func(node string) (*stats.Summary, error)

	mu    sync.Mutex
	nodes map[netip.AddrPort]string
	pods  map[string]*corev1.Pod
}

func newHost(t *testing.T) *host {
	h := &host{logs: t.TempDir(), nodes: map[netip.AddrPort]string{}, pods: map[string]*corev1.Pod{}}
	h.running.Store(true)
	return h
}

func (h *host) NodeAt(local netip.AddrPort) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	node, ok := h.nodes[local]
	return node, ok
}

func (h *host) Pod(namespace, name string) (*corev1.Pod, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.pods[namespace+"/"+name]
	return p, ok
}

func (h *host) Pods(node string) []*corev1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*corev1.Pod
	for _, p := range h.pods {
		if p.Spec.NodeName == node {
			all = append(all, p)
		}
	}
	return all
}

func (h *host) Log(pod *corev1.Pod, container string, previous bool) (LogFile, error) {
	run := "1.log"
	if previous {
		run = "0.log"
	}
	return LogFile{Path: filepath.Join(h.logs, pod.Name, container, run), Running: h.running.Load}, nil
}

// log appends lines in CRI's format.
func (h *host) log(t *testing.T, pod, container, run, lines string) {
	t.Helper()
	path := filepath.Join(h.logs, pod, container, run)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, lines); err != nil {
		t.Fatal(err)
	}
}

func (h *host) Exec(ctx context.Context, _ *corev1.Pod, _ string, argv []string, s Streams) error {
	if s.TTY {
		return onTerminal(ctx, argv, s)
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = s.In, s.Out, s.Err
	return ended(c.Run())
}

func ended(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ExitError(exit.ExitCode())
	}
	return err
}

// onTerminal gives the command a terminal of the client's size.
func onTerminal(ctx context.Context, argv []string, s Streams) error {
	us, them, err := openTerminal()
	if err != nil {
		return err
	}
	defer us.Close()
	defer them.Close()
	size := <-s.Resize // kubectl sends its size first
	if err := unix.IoctlSetWinsize(int(us.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: size.Height, Col: size.Width}); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = them, them, them
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(us, s.In) }()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(s.Out, us) // ends with EIO when the last process closes the terminal
	}()
	err = c.Wait()
	_ = them.Close()
	<-copied
	return ended(err)
}

// openTerminal opens a pseudo-terminal and returns our side and the process's side.
func openTerminal() (us, them *os.File, err error) {
	if us, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(us.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(us.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		them, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = us.Close()
	}
	return us, them, err
}

// Attach attaches to a process that echoes its input.
func (h *host) Attach(ctx context.Context, _ *corev1.Pod, _ string, s Streams) error {
	c := exec.CommandContext(ctx, "sh", "-c", `echo attached; exec cat`)
	c.Stdin, c.Stdout, c.Stderr = s.In, s.Out, s.Err
	return c.Run()
}

func (h *host) PortForward(ctx context.Context, pod *corev1.Pod, port int32, stream io.ReadWriteCloser) error {
	if port != 80 {
		return fmt.Errorf("pod %s listens on no port %d", pod.Name, port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.web)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

func (h *host) Stats(_ context.Context, node string) (*stats.Summary, error) { return h.measure(node) }
