package image

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// store keeps files by name in a directory of bounded size. Files in use stay; of the others the least recently used is
// removed first. A file appears complete or not at all: it is written in tmp/, synced and renamed. One process owns the
// directory.
type store struct {
	dir  string
	max  int64
	lock *os.File

	mu       sync.Mutex
	files    map[string]*stored
	reserved int64 // bytes for files being written
	clock    int64
}

type stored struct {
	bytes int64
	uses  int
	last  int64 // by store.clock; before this process, the order of modification times
}

// Directories of the store.
const (
	blobs = "blobs"
	disks = "disks"
	temp  = "tmp"
)

func openStore(dir string, maxBytes int64) (*store, error) {
	for _, d := range []string{temp, blobs, disks} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("open the image cache: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the image cache: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("the image cache %s belongs to another process: %w; stop it, or give each its own directory",
			dir, err)
	}
	s := &store{dir: dir, max: maxBytes, lock: lock, files: map[string]*stored{}}
	if err := s.scan(); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("open the image cache %s: %w", dir, err)
	}
	return s, nil
}

// scan lists the files after a restart, and removes what a crash has left unfinished.
func (s *store) scan() error {
	if err := os.RemoveAll(filepath.Join(s.dir, temp)); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(s.dir, temp), 0o700); err != nil {
		return err
	}
	type dated struct {
		name  string
		bytes int64
		at    time.Time
	}
	var all []dated
	for _, d := range []string{blobs, disks} {
		list, err := os.ReadDir(filepath.Join(s.dir, d))
		if err != nil {
			return err
		}
		for _, e := range list {
			if info, err := e.Info(); err == nil && !strings.HasSuffix(e.Name(), recordSuffix) {
				all = append(all, dated{filepath.Join(d, e.Name()), info.Size(), info.ModTime()})
			}
		}
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	for _, f := range all {
		s.clock++
		s.files[f.name] = &stored{bytes: f.bytes, last: s.clock}
	}
	return nil
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// hold keeps a file until release. It returns false if there is none.
func (s *store) hold(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return false
	}
	f.uses++
	s.clock++
	f.last = s.clock
	now := time.Now() // so that the order outlives this process
	_ = os.Chtimes(s.path(name), now, now)
	return true
}

func (s *store) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name] != nil
}

// size returns the size of a file, 0 if there is none.
func (s *store) size(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil {
		return f.bytes
	}
	return 0
}

func (s *store) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil && f.uses > 0 {
		f.uses--
	}
}

// create writes a file and holds it. The caller ensures that only one call at a time creates a name.
func (s *store) create(name string, estimate int64, fill func(f *os.File) error) error {
	if err := s.reserve(estimate); err != nil {
		return err
	}
	defer s.unreserve(estimate)
	f, err := os.CreateTemp(filepath.Join(s.dir, temp), "new-*")
	if err != nil {
		return err
	}
	err = fill(f)
	var bytes int64
	if err == nil {
		bytes, err = finish(f, s.path(name))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w: free space below %s, or give the image cache another disk", err, s.dir)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	uses := 1
	if f := s.files[name]; f != nil { // an abandoned earlier attempt has succeeded after all
		uses += f.uses
	}
	s.files[name] = &stored{bytes: bytes, uses: uses, last: s.clock}
	return nil
}

// finish makes a written file durable under its name.
func finish(f *os.File, path string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(f.Sync(), os.Rename(f.Name(), path)); err != nil {
		return 0, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	return info.Size(), dir.Sync()
}

func (s *store) unreserve(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= bytes
}

// reserve makes room by removing the least recently used files.
func (s *store) reserve(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.reserved
	for _, f := range s.files {
		used += f.bytes
	}
	for used+bytes > s.max {
		oldest := ""
		for name, f := range s.files {
			if f.uses == 0 && (oldest == "" || f.last < s.files[oldest].last) {
				oldest = name
			}
		}
		if oldest == "" {
			return fmt.Errorf("%w: %d of %d bytes are in use, %d more are needed; stop pods, or raise the cache's size",
				ErrCacheFull, used, s.max, bytes)
		}
		used -= s.files[oldest].bytes
		if err := s.remove(oldest); err != nil {
			return err
		}
	}
	s.reserved += bytes
	return nil
}

// remove removes a file and its record. s.mu is held.
func (s *store) remove(name string) error {
	delete(s.files, name)
	for _, path := range []string{s.path(name), s.path(name) + recordSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// drop removes a file that turned out to be invalid, unless it is in use.
func (s *store) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil && f.uses == 0 {
		_ = s.remove(name)
	}
}

func (s *store) close() error { return s.lock.Close() }
