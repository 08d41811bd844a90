package image

import (
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/nodeless/nodeless/microvm/image/build"
)

func TestSecondPullDownloadsNothing(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, "one"))
	p := open(t, Options{Transport: s.transport})
	first := pulled(t, p, Request{Reference: s.host + "/app:1"})
	if !first.Pulled || first.Config.Entrypoint[0] != "/program" {
		t.Errorf("first pull: %+v", first)
	}
	digest, err := program(t, "one").Digest()
	if err != nil || first.Digest != s.host+"/app@"+digest.String() {
		t.Errorf("image ID of the status is %s, want the digest %s (%v)", first.Digest, digest, err)
	}
	if info, err := os.Stat(first.Disk); err != nil || info.Size() != first.DiskBytes || info.Size() == 0 {
		t.Errorf("disk: %v, %v", info, err)
	}
	s.forget()
	second := pulled(t, p, Request{Reference: s.host + "/app:1"})
	if second.Pulled || second.Disk != first.Disk || len(s.requests) != 0 {
		t.Errorf("second pull: %+v asked %v", second, s.requests)
	}
}

func TestPolicies(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, "one"))
	s.push(t, "app:latest", program(t, "one"))
	p := open(t, Options{Transport: s.transport})
	app := s.host + "/app:1"

	_, err := p.Pull(t.Context(), Request{Reference: app, Policy: Never})
	if !errors.Is(err, ErrNeverPull) {
		t.Errorf("Never without the image: %v", err)
	}
	one := pulled(t, p, Request{Reference: app, Policy: IfNotPresent})
	s.push(t, "app:1", program(t, "two"))
	if img := pulled(t, p, Request{Reference: app, Policy: IfNotPresent}); img.ID != one.ID {
		t.Error("IfNotPresent went to the registry")
	}
	if img := pulled(t, p, Request{Reference: app, Policy: Never}); img.ID != one.ID {
		t.Error("Never gave another image")
	}
	two := pulled(t, p, Request{Reference: app, Policy: Always})
	if two.ID == one.ID {
		t.Error("Always did not resolve the tag again")
	}
	s.forget()
	if img := pulled(t, p, Request{Reference: app, Policy: Always}); img.ID != two.ID || img.Pulled ||
		s.asked("GET", "/blobs/") != 0 || s.asked("HEAD", "/manifests/") != 1 {
		t.Errorf("Always with the tag unchanged: %+v, asked %v", img, s.requests)
	}
	if img := pulled(t, p, Request{Reference: app, Policy: IfNotPresent}); img.ID != two.ID {
		t.Error("the tag still means the old image")
	}
	pulled(t, p, Request{Reference: s.host + "/app"})
	s.forget()
	if pulled(t, p, Request{Reference: s.host + "/app"}); len(s.requests) == 0 {
		t.Error("the tag latest is not resolved again by default")
	}
}

func TestIndexPlatform(t *testing.T) {
	s := newServer(t)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{
			Add:        forArchitecture(t, "s390x"),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
		},
		mutate.IndexAddendum{
			Add:        program(t, "mine"),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
		},
		mutate.IndexAddendum{
			Add:        empty.Image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}},
		})
	ref, err := name.ParseReference(s.host + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithTransport(s.transport)); err != nil {
		t.Fatal(err)
	}
	p := open(t, Options{Transport: s.transport, Architecture: "amd64"})
	if img := pulled(t, p, Request{Reference: ref.Name()}); len(img.Config.Entrypoint) == 0 {
		t.Errorf("got %+v", img)
	}
	p = open(t, Options{Transport: s.transport, Architecture: "riscv64"})
	_, err = p.Pull(t.Context(), Request{Reference: ref.Name()})
	says(t, err, "linux/s390x, linux/amd64", "this host is linux/riscv64")
	if !errors.Is(err, ErrPlatform) {
		t.Errorf("%v is not ErrPlatform", err)
	}
}

func TestInvalidNames(t *testing.T) {
	p := open(t, Options{})
	for _, bad := range []string{"", "UPPER/case", "a b", "app:tag:tag", "app@sha256:12", "../etc/passwd"} {
		_, err := p.Pull(t.Context(), Request{Reference: bad})
		if !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
		says(t, err, "repository[:tag")
	}
}

func TestLocalSourcesNeedNoNetwork(t *testing.T) {
	dir, layouts := t.TempDir(), t.TempDir()
	if err := os.WriteFile(dir+"/hello", []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := build.Options{Dir: dir, Tag: "example.local/hello:1", Config: v1.Config{Cmd: []string{"/hello"}}}
	built, err := build.Layout(layouts+"/hello", o)
	if err != nil {
		t.Fatal(err)
	}
	nowhere := roundTripper(func(r *http.Request) (*http.Response, error) { return nil, errors.New("no network") })
	p := open(t, Options{Sources: []string{layouts, t.TempDir() + "/not-yet"}, Transport: nowhere})
	img := pulled(t, p, Request{Reference: "example.local/hello:1", Policy: Never})
	if img.Digest != "example.local/hello@"+built.String() {
		t.Errorf("digest %s, built %s", img.Digest, built)
	}
	pulled(t, p, Request{Reference: img.Digest, Policy: Always})

	o.Config.Cmd = []string{"/hello", "again"}
	if _, err := build.Layout(layouts+"/hello", o); err != nil {
		t.Fatal(err)
	}
	if again := pulled(t, p, Request{Reference: "example.local/hello:1", Policy: IfNotPresent}); again.ID == img.ID {
		t.Error("a rebuilt local image is not seen")
	}
	_, err = p.Pull(t.Context(), Request{Reference: "example.local/other:1"})
	says(t, err, "example.local/other:1", "cannot be reached", "no network")
}
