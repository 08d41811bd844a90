package plane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// store is the embedded etcd. It listens on a socket in a folder that only this user may enter.
type store struct {
	dir     string
	socket  string
	cleanup func()
	server  *embed.Etcd

	failed chan struct{}
	once   sync.Once
	err    error
}

func (s *store) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.failed)
	})
}

// startEtcd checks etcd's files and starts it. Damaged files cause a *CorruptError.
func (p *Plane) startEtcd(ctx context.Context) error {
	s := &store{dir: filepath.Join(p.dir, "etcd"), failed: make(chan struct{})}
	if err := checkFiles(s.dir); err != nil {
		return err
	}
	if err := s.makeSocket(); err != nil {
		return err
	}
	p.etcd = s
	started := make(chan *embed.Etcd, 1)
	go s.serve(started)
	select {
	case s.server = <-started:
	case <-s.failed:
		return &CorruptError{Dir: s.dir, Cause: s.err}
	case <-ctx.Done():
		return fmt.Errorf("start etcd: %w; see %s", context.Cause(ctx), p.o.LogFile)
	}
	select {
	case <-s.server.Server.ReadyNotify():
	case <-s.failed:
		return &CorruptError{Dir: s.dir, Cause: s.err}
	case <-ctx.Done():
		return fmt.Errorf("wait for etcd: %w; see %s", context.Cause(ctx), p.o.LogFile)
	}
	go func() {
		select {
		case <-s.failed:
			p.fail("etcd", s.err)
		case <-p.done:
		}
	}()
	return markInitialised(s.dir)
}

// serve starts etcd in a separate goroutine, because a fatal log entry of etcd ends the goroutine, and because a
// damaged database file may be mapped shorter than its pages say.
func (s *store) serve(started chan<- *embed.Etcd) {
	debug.SetPanicOnFault(true)
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Errorf("etcd: %v", r))
		}
	}()
	e, err := embed.StartEtcd(s.config())
	if err != nil {
		s.fail(err)
		return
	}
	started <- e
	for err := range e.Err() {
		s.fail(err)
	}
}

func (s *store) config() *embed.Config {
	client := url.URL{Scheme: "unix", Path: s.socket}
	peer := url.URL{Scheme: "http", Host: "localhost:2380"} // only a name: a single member has no peers
	c := embed.NewConfig()
	c.Name, c.Dir = "nodeless", s.dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{peer} // nobody uses the advertised address
	c.ListenPeerUrls, c.AdvertisePeerUrls = nil, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false
	// Without fsync a power failure may lose the last seconds, which a cluster of simulated instances can bear, and
	// writes are ten times faster on slow disks. Killing the process, even with kill -9, loses nothing: what was
	// written is in the kernel's page cache.
	c.UnsafeNoFsync = true
	// The only member may hold an election soon after the start.
	c.TickMs, c.ElectionMs = 50, 250
	c.QuotaBackendBytes = 8 << 30
	c.MaxRequestBytes = 3 << 20 // headroom above the API server's own limit of 3 MB of JSON, which is smaller as protobuf
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(s.fail))
	return c
}

// endpoint returns the address for the API server.
func (s *store) endpoint() string { return "unix://" + s.socket }

// maxSocketPath is the longest path of a Unix socket on Linux and macOS, with a margin.
const maxSocketPath = 100

// makeSocket chooses the path of the socket: in the data directory (0700) or, if that path is too long for a socket, in
// a new private folder.
func (s *store) makeSocket() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("etcd folder: %w", err)
	}
	s.socket, s.cleanup = filepath.Join(s.dir, "etcd.sock"), func() {}
	if len(s.socket) > maxSocketPath {
		dir, err := os.MkdirTemp("", "nodeless-") // 0700
		if err != nil {
			return fmt.Errorf("folder for etcd's socket: %w", err)
		}
		s.socket, s.cleanup = filepath.Join(dir, "etcd.sock"), func() { _ = os.RemoveAll(dir) }
	}
	if err := os.Remove(s.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("etcd's socket: %w", err)
	}
	return nil
}

// stop closes etcd gracefully within limit, and forcibly after that.
func (s *store) stop(limit time.Duration) {
	defer s.cleanup()
	if s.server == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.server.Close()
	}()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case <-closed:
	case <-deadline.C:
		go s.server.Server.HardStop()
		select {
		case <-closed:
		case <-time.After(limit / 2):
		}
	}
}
