package enter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bind mounts a volume, or a part of one. Symbolic links are resolved within the volume or image that they are in,
// and cannot lead out of it.
func (m Mount) bind() error {
	source := m.Source
	if m.SubPath != "" {
		volume, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		fd, err := openInside(m.Source, m.SubPath, volume.Mode())
		if err != nil {
			return fmt.Errorf("subPath %q: %w", m.SubPath, err)
		}
		defer func() { _ = unix.Close(fd) }()
		source = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	var mode os.FileMode
	if info.IsDir() {
		mode = 0o755 | os.ModeDir
	}
	target, err := makeInside(rootDir, m.Target, mode)
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if m.ReadOnly && m.Recursive {
		if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("make it read-only with what is mounted below: %w", err)
		}
	}
	switch {
	case m.NoPrograms:
		return ReadOnly(target, DataOnly)
	case m.ReadOnly:
		return ReadOnly(target, 0)
	}
	return nil
}

// openInside opens a path below root, for a mount, without leaving root. If mode is that of a directory, it makes
// missing directories.
func openInside(root, path string, mode os.FileMode) (int, error) {
	base, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(base) }()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(base, path, how)
	if !errors.Is(err, unix.ENOENT) || !mode.IsDir() {
		return fd, err
	}
	if _, err := makeInside(root, path, mode); err != nil {
		return -1, err
	}
	return unix.Openat2(base, path, how)
}

// makeInside ensures that path exists below root, as a directory with the given mode or as a file, and returns its
// real path.
func makeInside(root, path string, mode os.FileMode) (string, error) {
	parts := strings.Split(strings.Trim(filepath.Clean("/"+path), "/"), "/")
	at := ""
	for i, part := range parts {
		next := at + "/" + part
		var err error
		if at, err = realPath(root, next); errors.Is(err, unix.ENOENT) {
			made := makeOne(filepath.Join(root, next), i < len(parts)-1 || mode.IsDir(), mode)
			if at, err = realPath(root, next); made != nil && err != nil { // else another container may have made it
				err = made
			}
		}
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(root, at), nil
}

// realPath returns path below root without symbolic links.
func realPath(root, path string) (string, error) {
	fd, err := openInside(root, path, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	whole, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return strings.TrimPrefix(whole, root), err
}

// makeOne makes a directory or a file. If mode is that of a directory, it is the mode of directories.
func makeOne(path string, dir bool, mode os.FileMode) error {
	if !dir {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	}
	if err := os.Mkdir(path, 0o755); err != nil || !mode.IsDir() {
		return err
	}
	return os.Chmod(path, mode) // as for the volume, so that its users can write
}
