package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// volumeDir returns the directory with a volume's content, and whether that content is an image.
func (p *pod) volumeDir(name string) (dir string, isImage bool, err error) {
	for _, v := range p.spec.Volumes {
		switch {
		case v.Name != name:
		case v.Disk != "":
			return filepath.Join(enter.DisksDir, v.Disk), true, nil
		case v.Projected:
			return filepath.Join(enter.PodDir, "volumes", name), false, nil
		default:
			return filepath.Join(enter.ScratchDir, "volumes", name), false, nil
		}
	}
	return "", false, fmt.Errorf("volume %q is not in the pod", name)
}

func (p *pod) makeVolume(v wire.Volume) error {
	dir, isImage, err := p.volumeDir(v.Name)
	if err != nil || isImage {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.Memory {
		data := ""
		if v.SizeLimit > 0 {
			data = "size=" + strconv.FormatInt(v.SizeLimit, 10)
		}
		if err := enter.MountFS("tmpfs", dir, "tmpfs", enter.NoDevices, data); err != nil {
			return err
		}
	}
	if v.Projected {
		return p.writeFiles(dir, v.Files)
	}
	// As with a kubelet, every user may write to an emptyDir; with an fsGroup, its files belong to that group.
	mode := os.FileMode(0o777)
	if g := p.spec.FSGroup; g != nil {
		if err := os.Chown(dir, 0, int(*g)); err != nil {
			return err
		}
		mode |= os.ModeSetgid
	}
	return os.Chmod(dir, mode)
}

func (p *pod) updateFiles(v wire.Volume) error {
	dir, _, err := p.volumeDir(v.Name)
	if err != nil {
		return err
	}
	p.filesMu.Lock()
	defer p.filesMu.Unlock()
	return p.writeFiles(dir, v.Files)
}

// writeFiles replaces all files of a volume at once, as a kubelet does and programs rely on: the files are in a
// directory of their own, the link ..data refers to it, and each name at the top is a link through ..data. The update
// is a rename of that link.
func (p *pod) writeFiles(dir string, files []wire.File) error {
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	top := map[string]bool{}
	for _, f := range files {
		if !filepath.IsLocal(f.Path) {
			return fmt.Errorf("path %q leads out of the volume", f.Path)
		}
		if err := p.writeFile(filepath.Join(fresh, f.Path), f); err != nil {
			return err
		}
		first, _, _ := strings.Cut(f.Path, "/")
		top[first] = true
	}
	data := filepath.Join(dir, "..data")
	old, _ := os.Readlink(data)
	next := filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(fresh), next), os.Rename(next, data)); err != nil {
		return err
	}
	for name := range top {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if old == "" {
		return nil
	}
	return p.removeStale(dir, old, top)
}

func (p *pod) removeStale(dir, old string, top map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); e.Type() == os.ModeSymlink && name != "..data" && !top[name] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

func (p *pod) writeFile(path string, f wire.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.Data, 0o600); err != nil {
		return err
	}
	uid, gid, mode := 0, 0, os.FileMode(f.Mode).Perm()
	if f.UID != nil {
		uid = int(*f.UID)
	}
	if g := p.spec.FSGroup; g != nil {
		gid = int(*g)
		mode |= (mode & 0o400) >> 3 // the group may read what the owner may read
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
