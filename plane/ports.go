package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// PortError reports that the requested port is taken.
type PortError struct {
	Port   int
	Holder string // " by process 123 (name)", "" if unknown
}

func (e *PortError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken%s; end that process, or give another port (0: any free one)", e.Port,
		e.Holder)
}

// Ports to try first. They are below the range that the kernel uses for outgoing connections, so that no other
// process gets them by chance between two starts, and differ from 6443, which other local clusters use.
const firstPort, lastPort = 16443, 16542

// listen opens the API server's port: the fixed one if set, else the port of the last start, else a free one.
func listen(fixed, last int) (net.Listener, error) {
	if fixed != 0 {
		l, err := listenOn(fixed)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &PortError{Port: fixed, Holder: holder(fixed)}
		}
		return l, err
	}
	if last != 0 {
		if l, err := listenOn(last); err == nil {
			return l, nil
		}
	}
	for port := firstPort; port <= lastPort; port++ {
		if l, err := listenOn(port); err == nil {
			return l, nil
		}
	}
	return listenOn(0)
}

func listenOn(port int) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	return l, nil
}

// holder names the process that listens on a port: " by process 123 (name)", or "" if it is unknown. Processes of other
// users hide their sockets, and only Linux shows them in /proc.
func holder(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningInodes(table, port, inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !inodes[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		return fmt.Sprintf(" by process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return ""
}

// listeningInodes adds the sockets that listen on a port according to a table as in proc(5): column 2 is address:port
// in hexadecimal, column 4 the state (0A: listen), column 10 the inode.
func listeningInodes(table string, port int, inodes map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		col := strings.Fields(s.Text())
		if len(col) < 10 || col[3] != "0A" {
			continue
		}
		_, hex, _ := strings.Cut(col[1], ":")
		if n, err := strconv.ParseInt(hex, 16, 32); err == nil && int(n) == port {
			inodes[col[9]] = true
		}
	}
}

// closable is the API server's listener. If the API server does not end in time, shut closes its port. Its accepting
// goroutine then ends; otherwise it would panic.
type closable struct {
	net.Listener
	closed atomic.Bool
}

func (l *closable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && l.closed.Load() {
		runtime.Goexit()
	}
	return c, err
}

// shut closes the port whether or not the API server has done so.
func (l *closable) shut() {
	l.closed.Store(true)
	_ = l.Close()
}
