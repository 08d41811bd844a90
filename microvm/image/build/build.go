// Package build makes an OCI image from a directory, without a daemon, a registry or privileges: enough for the
// examples, and for a newcomer's first program in a microVM. The same directory gives the same image, byte for byte.
package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// annotation names an image in the index of a layout (opencontainers/image-spec/annotations.md).
const annotation = "org.opencontainers.image.ref.name"

// Options configure an image.
type Options struct {
	Dir          string    // becomes the root of the image
	Tag          string    // the image's name, such as example.local/busybox:1
	Config       v1.Config // entrypoint, command, environment, user, working directory
	Architecture string    // as Go calls it; empty: this host's
}

// Layout builds the image and puts it into the OCI layout at path, which it creates if necessary. It replaces an
// image of the same name.
func Layout(path string, o Options) (v1.Hash, error) {
	tag, err := name.NewTag(o.Tag, name.WeakValidation)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image name %q: %w; write [registry/]repository[:tag]", o.Tag, err)
	}
	img, err := Image(o)
	if err != nil {
		return v1.Hash{}, err
	}
	l, err := layout.FromPath(path)
	if err != nil {
		if l, err = layout.Write(path, empty.Index); err != nil {
			return v1.Hash{}, fmt.Errorf("make the OCI layout %s: %w", path, err)
		}
	}
	err = l.ReplaceImage(img, match.Name(tag.Name()), layout.WithAnnotations(map[string]string{annotation: tag.Name()}))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the image to %s: %w", path, err)
	}
	return img.Digest()
}

// Image builds the image. All files belong to root and are dated 1970, so that the image does not depend on who
// builds it, or when.
func Image(o Options) (v1.Image, error) {
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := &writer{tar: tar.NewWriter(z), dir: o.Dir, inodes: map[inode]string{}}
	if err := filepath.WalkDir(o.Dir, w.add); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Dir, err)
	}
	if err := w.tar.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", o.Architecture, o.Config
	if o.Architecture == "" {
		file.Architecture = runtime.GOARCH
	}
	return mutate.ConfigFile(img, file)
}

type inode struct{ device, number uint64 }

type writer struct {
	tar    *tar.Writer
	dir    string
	inodes map[inode]string // the first names of files with several names
}

func (w *writer) add(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.dir, path)
	if err != nil || rel == "." {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0 {
		return fmt.Errorf("%s is a %s, which cannot be in an image; remove it", path, info.Mode().Type())
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime, h.Format = rel, 0, 0, "", "", time.Unix(0, 0), tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if info.IsDir() {
		h.Name += "/"
	}
	if first := w.firstName(info, rel); first != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return w.tar.WriteHeader(h)
	}
	if err := w.tar.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w.tar, f)
	return err
}

// firstName returns the name under which the archive already contains a hard-linked file, or "". For example,
// `busybox --install` makes hard links.
func (w *writer) firstName(info fs.FileInfo, rel string) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || stat.Nlink < 2 {
		return ""
	}
	key := inode{stat.Dev, stat.Ino}
	if first, ok := w.inodes[key]; ok {
		return first
	}
	w.inodes[key] = rel
	return ""
}
