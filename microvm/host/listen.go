package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ports for the kubelet API: below those that Linux gives to outgoing connections, and away from a kubelet's own.
const (
	firstPort = 20000
	portRange = 10000
	portTries = 100
)

// listenLocally listens on all loopback addresses, at the stored port or, if another program uses that one, at a new
// port, which it stores.
func listenLocally(dir string) (net.Listener, uint16, error) {
	file := filepath.Join(dir, "kubelet-port")
	var failed error
	for _, port := range portsToTry(dir, file) {
		l, err := listenLoopback(port)
		if err != nil {
			failed = err
			continue
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(int(port))), 0o600); err != nil {
			_ = l.Close()
			return nil, 0, err
		}
		return l, port, nil
	}
	return nil, 0, fmt.Errorf("no port for the kubelet API: %w", failed)
}

// portsToTry returns the stored port, then ports derived from the directory: two clusters on an instance rarely
// collide.
func portsToTry(dir, file string) []uint16 {
	var out []uint16
	if kept, err := os.ReadFile(file); err == nil {
		if port, err := strconv.ParseUint(strings.TrimSpace(string(kept)), 10, 16); err == nil && port > 0 {
			out = append(out, uint16(port))
		}
	}
	start, _ := strconv.ParseUint(shortHash(dir), 16, 32) // always hexadecimal
	for i := range uint64(portTries) {
		out = append(out, uint16(firstPort+(start+i)%portRange))
	}
	return out
}

// listenLoopback listens at a port of every loopback address and of no other.
func listenLoopback(port uint16) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptString(int(fd), unix.SOL_SOCKET,
				unix.SO_BINDTODEVICE, "lo")
		})
		if errors.Is(failed, unix.EPERM) { // kernels before 5.7 require root; then only loopbackOnly protects the port
			failed = nil
		}
		return errors.Join(err, failed)
	}}
	l, err := c.Listen(context.Background(), "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, err
	}
	return loopbackOnly{l}, nil
}

// loopbackOnly drops connections that did not arrive at a loopback address.
type loopbackOnly struct{ net.Listener }

func (l loopbackOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if at, ok := conn.LocalAddr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// listenRetry is the pause before retrying a port that another program uses.
const listenRetry = 10 * time.Second

// serveKubelet serves the kubelet API of a microVM that has a port of its own, until the microVM is removed.
func (h *Host) serveKubelet(m *microVM) {
	at := h.kubeletAt(m.record.address())
	if h.o.Kubelets == nil || !at.IsValid() {
		return
	}
	h.work.Go(func() {
		ctx, cancel := context.WithCancel(h.ctx)
		defer cancel()
		go func() {
			select {
			case <-m.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
		for told := false; ; told = true {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
			if err == nil {
				err = h.kubelet.Serve(ctx, l)
			}
			if ctx.Err() != nil {
				return
			}
			if !told {
				h.o.Log.Warn("cannot serve kubectl logs and exec for a pod; retrying", "pod",
					m.record.Namespace+"/"+m.record.Name, "error", err)
			}
			if !pause(ctx, listenRetry) {
				return
			}
		}
	})
}
