// Package datadir manages the folder in which a local cluster keeps its state. A mark tells a folder of ours from any
// other, a lock keeps out a second process, and Wipe deletes what Nodeless wrote there and nothing else.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

const (
	markFile = ".nodeless"
	// format is the version of the layout that this program writes.
	format = 1
	// roomNew and roomOld are the free bytes that a new and an existing cluster need to start: etcd reserves 64 MiB for
	// its log, and as much for the next one. An existing cluster has already reserved its own.
	roomNew = 256 << 20
	roomOld = 64 << 20
)

// Mark is what a data directory records about itself.
type Mark struct {
	Format     int    `json:"format,omitempty"`
	Name       string `json:"name,omitempty"`       // of the cluster; "" = unnamed
	Version    string `json:"version,omitempty"`    // of the Nodeless that last used the folder
	Kubernetes string `json:"kubernetes,omitempty"` // its Kubernetes, such as v1.36.2
}

// ErrNotOurs means that a folder was not made by Nodeless.
var ErrNotOurs = errors.New("it holds no file " + markFile + ", so it was not made by nodeless")

// Read reads the mark of a folder. It returns fs.ErrNotExist if there is no such folder, and ErrNotOurs if it has no
// mark.
func Read(dir string) (Mark, error) {
	var m Mark
	if err := isFolder(dir); err != nil {
		return m, err
	}
	data, err := os.ReadFile(filepath.Join(dir, markFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, ErrNotOurs
	case err != nil:
		return m, unreadable(dir, err)
	case len(data) == 0: // early versions wrote an empty mark
		return m, nil
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("data directory %s: its file %s is damaged (%w); empty that file", dir, markFile, err)
	}
	return m, nil
}

// isFolder returns an error if the path is not a folder.
func isFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("data directory %s: it is a file or lies below one; choose a folder with --data-dir", dir)
	}
	if err != nil {
		return unreadable(dir, err)
	}
	return nil
}

// unreadable is the error of a folder that cannot be read.
func unreadable(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("data directory %s: %w; run as the user that it belongs to, or choose another with --data-dir",
			dir, err)
	}
	return fmt.Errorf("data directory: %w", err)
}

// Prepare makes a folder a data directory, or checks that this program and its Kubernetes ("" = none will run there)
// can use it. It rejects a folder with files that are not ours, one that cannot be written to, and a disk without
// room for a cluster.
func Prepare(dir, kubernetes string) (Mark, error) {
	m, err := Read(dir)
	fresh := false
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return m, fmt.Errorf("data directory: %w; choose another with --data-dir", err)
		}
		fresh = true
	case errors.Is(err, ErrNotOurs):
		if err := empty(dir); err != nil {
			return m, err
		}
		fresh = true
	case err != nil:
		return m, err
	}
	if err := m.usable(dir, kubernetes); err != nil {
		return m, err
	}
	room := int64(roomOld)
	if fresh {
		room = roomNew
	}
	if err := hasRoom(dir, room); err != nil {
		return m, err
	}
	if fresh {
		m.Format = format
	}
	return m, m.Write(dir)
}

// empty returns an error if a folder holds anything but what "nodeless host" keeps.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w; choose another with --data-dir", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == hostFolder })
	if len(entries) > 0 {
		return fmt.Errorf("data directory %s: it is not empty (%s), and %w; choose an empty or a new folder with --data-dir",
			dir, entries[0].Name(), ErrNotOurs)
	}
	return nil
}

// usable returns an error if this program cannot use what another version has left.
func (m Mark) usable(dir, kubernetes string) error {
	remedy := func(of string) error {
		return fmt.Errorf("data directory %s: it was written by %s, which is newer than this program; use that one, "+
			"or another folder with --data-dir", dir, of)
	}
	if m.Format > format {
		return remedy("nodeless " + m.Version)
	}
	if kubernetes != "" && minor(m.Kubernetes) > minor(kubernetes) {
		return remedy("nodeless " + m.Version + " with Kubernetes " + m.Kubernetes)
	}
	return nil
}

// minor returns 36 for v1.36.2, and 0 for text that is not a version.
func minor(version string) int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

// hasRoom checks the free space of the folder's disk.
func hasRoom(dir string, want int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("data directory %s: free space: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < want { //nolint:unconvert // types differ between systems
		return fmt.Errorf("data directory %s: its disk has %d MiB free, and a cluster needs %d; make room, or choose "+
			"another disk with --data-dir",
			dir, free>>20, want>>20)
	}
	return nil
}

// Write replaces the mark. It fails if the folder cannot be written to.
func (m Mark) Write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, markFile)
	err = os.WriteFile(path+".tmp", append(data, '\n'), 0o600)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("data directory %s cannot be written to: %w; make it writable, or choose another with --data-dir",
			dir, err)
	}
	return nil
}

// Flag returns the command-line flag that names the folder, with a leading space.
func Flag(dir string) string { return " --data-dir " + Quote(dir) }

// Quote writes a path so that a shell reads it as one word.
func Quote(path string) string {
	if strings.ContainsFunc(path, special) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// special reports whether a shell does not take the character literally.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+,:@%=", r)
}
