package image

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestCacheStaysWithinItsSize(t *testing.T) {
	s := newServer(t)
	for _, tag := range []string{"a", "b", "c"} {
		s.push(t, "app:"+tag, program(t, strings.Repeat(tag, 9<<20)))
	}
	// 25 MiB and a little more are reserved for a disk of 9 MiB, beside two small layers.
	p := open(t, Options{Transport: s.transport, CacheBytes: 40 << 20})
	get := func(tag string) (*Image, error) {
		return p.Pull(t.Context(), Request{Reference: s.host + "/app:" + tag})
	}
	a, err := get("a")
	must(t, err)
	b, err := get("b")
	must(t, err)
	if _, err := get("c"); !errors.Is(err, ErrCacheFull) {
		t.Fatalf("a third image beside two in use: %v", err)
	}
	says(t, func() error { _, err := get("c"); return err }(), "app:c", "in use", "raise the cache's size")
	b.Release()
	b.Release() // releasing twice does no harm
	a.Release()
	a, err = get("a") // so b is the least recently used
	must(t, err)
	c, err := get("c")
	must(t, err)
	for img, want := range map[*Image]bool{a: true, b: false, c: true} {
		if _, err := os.Stat(img.Disk); (err == nil) != want {
			t.Errorf("%s on disk: %v, want %v", img.Name, err == nil, want)
		}
	}
	var total int64
	must(t, filepath.WalkDir(p.store.dir, func(_ string, d os.DirEntry, err error) error {
		if info, e := d.Info(); e == nil && d.Type().IsRegular() {
			total += info.Size()
		}
		return err
	}))
	if total > 40<<20 {
		t.Errorf("the cache takes %d bytes", total)
	}
	if _, err = get("b"); err == nil {
		t.Error("b came back although a and c are in use")
	}
}

func TestCacheAfterRestart(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, "one"))
	dir := t.TempDir()
	p := openAt(t, dir, Options{Transport: s.transport})
	before := pulled(t, p, Request{Reference: s.host + "/app:1"})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "belongs to another process") {
		t.Errorf("two processes opened one cache: %v", err)
	}
	must(t, p.Close())

	// What kill -9 leaves: a file being written, a record without a disk, a truncated disk, a disk without a record.
	other := strings.Repeat("a", 64)
	for name, content := range map[string]string{
		"tmp/new-1": "half", "disks/" + other + ".ext4.json": `{"format":1}`,
		"disks/" + strings.Repeat("b", 64) + ".ext4":      "no record",
		"disks/" + strings.Repeat("c", 64) + ".ext4":      "cut",
		"disks/" + strings.Repeat("c", 64) + ".ext4.json": `{"format":1,"diskBytes":9999}`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	p = openAt(t, dir, Options{Transport: s.transport})
	s.forget()
	after := pulled(t, p, Request{Reference: s.host + "/app:1"})
	if after.ID != before.ID || after.Config.Entrypoint[0] != "/program" || len(s.requests) != 0 {
		t.Errorf("after the restart: %+v, asked %v", after, s.requests)
	}
	held, err := p.Hold(before.ID)
	if err != nil || held.Disk != before.Disk {
		t.Errorf("hold: %+v, %v", held, err)
	}
	if _, err := p.Hold("sha256:" + other); err == nil {
		t.Error("held a disk that is not there")
	}
	list, err := filepath.Glob(filepath.Join(dir, "disks", "*"))
	must(t, err)
	if len(list) != 2 || len(leftovers(t, dir)) != 0 {
		t.Errorf("left: %v, %v", list, leftovers(t, dir))
	}
}

// An image whose disk was evicted, and that is pulled again, is known by its name after a restart.
func TestNamesSurviveEviction(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:a", program(t, "a"))
	s.push(t, "app:large", program(t, strings.Repeat("x", 30<<20)))
	dir := t.TempDir()
	o := Options{Transport: s.transport, CacheBytes: 40 << 20}
	p := openAt(t, dir, o)
	get := func(tag string) (*Image, error) {
		return p.Pull(t.Context(), Request{Reference: s.host + "/app:" + tag})
	}
	a, err := get("a")
	must(t, err)
	a.Release()
	if _, err := get("large"); !errors.Is(err, ErrCacheFull) {
		t.Fatalf("an image larger than the cache: %v", err)
	}
	if _, err := os.Stat(a.Disk); err == nil {
		t.Fatal("the disk of a was not evicted")
	}
	a, err = get("a")
	must(t, err)
	a.Release()
	must(t, p.Close())
	p = openAt(t, dir, o)
	s.forget()
	a, err = get("a")
	must(t, err)
	a.Release()
	if len(s.requests) != 0 {
		t.Errorf("after the restart the registry was asked: %v", s.requests)
	}
}

// An archive has no digest of its own: the image ID is its configuration's.
func TestDockerArchives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.tar")
	tag, err := name.NewTag("example.local/saved:1")
	must(t, err)
	img := program(t, "saved")
	must(t, tarball.WriteToFile(path, tag, img))
	p := open(t, Options{Sources: []string{path}})
	got := pulled(t, p, Request{Reference: "example.local/saved:1"})
	if config, err := img.ConfigName(); err != nil || got.Digest != config.String() {
		t.Errorf("image ID of the status is %s, want the configuration's %s", got.Digest, config)
	}
	must(t, os.WriteFile(path, []byte("nothing"), 0o600))
	_, err = p.Pull(t.Context(), Request{Reference: "example.local/saved:1"})
	says(t, err, path, "not a docker archive", "docker save")
}

// Two images that share a layer download it once.
func TestLayersAreShared(t *testing.T) {
	s := newServer(t)
	base := program(t, "base")
	s.push(t, "base:1", base)
	s.push(t, "app:1", withLayer(t, base, tar.Header{Name: "etc", Typeflag: tar.TypeDir, Mode: 0o755}))
	p := open(t, Options{Transport: s.transport})
	pulled(t, p, Request{Reference: s.host + "/base:1"})
	s.forget()
	pulled(t, p, Request{Reference: s.host + "/app:1"})
	if n := s.asked("GET", firstLayer(t, base).Hex); n != 0 {
		t.Errorf("the shared layer was downloaded %d times more", n)
	}
}
