package build

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		path := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuildIsReproducible(t *testing.T) {
	var digests []v1.Hash
	for range 2 {
		dir := t.TempDir()
		write(t, dir, "etc/motd", "bin/busybox")
		if err := os.Link(dir+"/bin/busybox", dir+"/bin/sh"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("sh", dir+"/bin/ash"); err != nil {
			t.Fatal(err)
		}
		img, err := Image(Options{Dir: dir, Config: v1.Config{Cmd: []string{"sh"}}, Architecture: "arm64"})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
		var list []string
		for r := tar.NewReader(mutate.Extract(img)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.ModTime.Unix() != 0 {
				t.Errorf("%s belongs to %d and is of %v", h.Name, h.Uid, h.ModTime)
			}
			list = append(list, strings.TrimSuffix(h.Name, "/")+string(h.Typeflag)+h.Linkname)
		}
		if got, want := strings.Join(list, " "),
			"bin5 bin/ash2sh bin/busybox0 bin/sh1bin/busybox etc5 etc/motd0"; got != want {
			t.Errorf("holds %q, want %q", got, want)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds gave %v", digests)
	}
}

func TestLayoutReplacesImages(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "images")
	for _, tag := range []string{"example.local/aa:1", "example.local/bb:1", "example.local/aa:1"} {
		write(t, dir, tag)
		if _, err := Layout(out, Options{Dir: dir, Tag: tag}); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != 2 {
		t.Errorf("the index has %d images (%v), want 2", len(m.Manifests), err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
}

func TestBuildErrors(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Dir: t.TempDir(), Tag: "NO"}, "[registry/]repository[:tag]"},
		{Options{Dir: filepath.Join(dir, "none"), Tag: "aa"}, "no such file"},
		{Options{Dir: dir, Tag: "aa"}, "socket"},
	} {
		if _, err := Layout(filepath.Join(t.TempDir(), "l"), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}
