package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/nodeless/nodeless/microvm/image/build"
	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

func firstLayer(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Layers[0].Digest
}

// Whatever is wrong with an image, the message names the image, the layer, the cause and a remedy, and nothing is
// left behind.
func TestBadImages(t *testing.T) {
	good := program(t, "one")
	digest := firstLayer(t, good)
	answer := func(method, part string, f func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != method || !strings.Contains(r.URL.Path, part) {
				return false
			}
			f(w)
			return true
		}
	}
	send := func(body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(body)) }
	}
	for _, c := range []struct {
		idea   string
		img    v1.Image
		answer func(http.ResponseWriter, *http.Request) bool
		want   []string
	}{
		{
			"another architecture", forArchitecture(t, "s390x"), nil,
			[]string{"linux/s390x", "this host is linux/amd64", "build or choose"},
		},
		{
			"path traversal", withLayer(t, good, tar.Header{Name: "../../evil", Typeflag: tar.TypeReg}), nil,
			[]string{"layer sha256:", `entry "../../evil"`, "path traversal", "rebuild"},
		},
		{
			"a device node", withLayer(t, good, tar.Header{Name: "disk", Typeflag: tar.TypeBlock, Devmajor: 254}), nil,
			[]string{"layer sha256:", "device node", "rebuild"},
		},
		{"a giant layer", good, answer("GET", "/manifests/", send(`{"schemaVersion":2,
			"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"`+configOf(t, good)+`","size":1},
			"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"`+digest.String()+`","size":99999999999}]}`)), []string{"layer sha256:", "99999999999 bytes", "raise the limit"}},
		{"a chart", good, answer("GET", "/manifests/", send(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
			"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"`+configOf(t, good)+`","size":1}}`)), []string{"not a container image", "helm"}},
		{"a manifest that is none", good, answer("GET", "/manifests/", send(`[]`)), []string{"manifest is no JSON"}},
		{"a manifest of 0 bytes", good, answer("GET", "/manifests/", send("")), []string{"manifest is no JSON"}},
		{
			"an index without images", good, answer("GET", "/manifests/", func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", string(types.OCIImageIndex))
				send(`{"schemaVersion":2,"manifests":[]}`)(w)
			}),
			[]string{"its index names no image; build it again for linux/amd64"},
		},
		{
			"a configuration of 0 bytes", good,
			answer("GET", configOf(t, good), send("")),
			[]string{"damaged: " + configOf(t, good) + " has the digest sha256:" + digestOfNothing, "push the image again"},
		},
		{
			"a manifest of 100,000 layers", good,
			answer("GET", "/manifests/", send(`{"schemaVersion":2,"config":{"mediaType":"`+string(types.OCIConfigJSON)+
				`","digest":"`+configOf(t, good)+`","size":1},"layers":[`+
				repeated(100_000, `{"digest":"`+digest.String()+`","size":1}`)+`]}`)),
			[]string{"it has 100000 layers, at most 512 are accepted", "squash it"},
		},
		{
			"a missing layer", good,
			answer("GET", digest.Hex, func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }),
			[]string{"layer " + digest.String(), "does not have it", "push the image again"},
		},
		{
			"a layer of other content", good, answer("GET", digest.Hex, send(strings.Repeat("x", layerSize(t, good)))),
			[]string{"layer " + digest.String(), "digest"},
		},
		{
			"a layer that ends early", good, answer("GET", digest.Hex, send("x")),
			[]string{"layer " + digest.String(), "ended after 1 of", "EOF"},
		},
		{
			"a layer that does not end", good, answer("GET", digest.Hex, send(strings.Repeat("x", 1<<20))),
			[]string{"layer " + digest.String(), "sends more than"},
		},
		{
			"a registry that breaks down", good,
			answer("GET", "/manifests/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotImplemented) }),
			[]string{"501"},
		},
	} {
		t.Run(c.idea, func(t *testing.T) {
			s := newServer(t)
			s.push(t, "app:1", c.img)
			s.intercept(c.answer)
			dir := t.TempDir()
			p := openAt(t, dir, Options{Transport: s.transport, Architecture: "amd64"})
			_, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
			says(t, err, append(c.want, "image "+s.host+"/app:1")...)
			if left := leftovers(t, dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if disks, _ := filepath.Glob(filepath.Join(dir, disks, "*")); len(disks) != 0 {
				t.Errorf("a disk was made: %v", disks)
			}
		})
	}
}

// A connection that breaks, in whichever way, says nothing about the image.
func TestABrokenConnectionIsNoDamage(t *testing.T) {
	cause := errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer")
	broken := func(context.Context, blob) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(cause))), nil
	}
	if _, err := readBlob(t.Context(), broken, blob{}); !errors.Is(err, cause) || errors.Is(err, errDamaged) {
		t.Errorf("got %v", err)
	}
}

// repeated returns n elements of a JSON array.
func repeated(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// digestOfNothing is the sha256 of 0 bytes.
const digestOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A docker archive may name other numbers of layers in its manifest and in its configuration.
func TestBadArchives(t *testing.T) {
	for _, c := range []struct {
		idea                 string
		inManifest, inConfig int
		want                 string
	}{
		{"100,000 layers", 100_000, 100_000, "it has 100000 layers, at most 512 are accepted; squash it"},
		{"100,000 layers in the manifest alone", 100_000, 1, "its manifest names 100000 layers, its configuration 1"},
		{"a layer in the configuration alone", 0, 1, "its manifest names 0 layers, its configuration 1"},
	} {
		t.Run(c.idea, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "saved.tar")
			file, err := os.Create(path)
			must(t, err)
			w := tar.NewWriter(file)
			for name, content := range map[string]string{
				"manifest.json": `[{"Config":"config","RepoTags":["example.local/app:1"],"Layers":[` +
					repeated(c.inManifest, `"layer"`) + `]}]`,
				"config": `{"os":"linux","rootfs":{"type":"layers","diff_ids":[` +
					repeated(c.inConfig, `"sha256:`+digestOfNothing+`"`) + `]}}`,
				"layer": "",
			} {
				must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
				_, err := w.Write([]byte(content))
				must(t, err)
			}
			must(t, errors.Join(w.Close(), file.Close()))
			p := open(t, Options{Sources: []string{path}})
			_, err = p.Pull(t.Context(), Request{Reference: "example.local/app:1"})
			says(t, err, "image example.local/app:1", path, c.want)
		})
	}
}

// An image FROM scratch may have no layers, or one of 0 bytes, as old builders wrote them. As with containerd, it runs:
// its files come from volumes.
func TestImagesWithoutFiles(t *testing.T) {
	nothing := static.NewLayer(nil, types.OCIUncompressedLayer)
	withNothing, err := mutate.AppendLayers(forArchitecture(t, "amd64"), nothing)
	must(t, err)
	for idea, img := range map[string]v1.Image{
		"no layers": forArchitecture(t, "amd64"), "a layer of 0 bytes": withNothing,
	} {
		t.Run(idea, func(t *testing.T) {
			s := newServer(t)
			s.push(t, "app:1", img)
			saved := filepath.Join(t.TempDir(), "saved.tar")
			tag, err := name.NewTag("example.local/app:1")
			must(t, err)
			must(t, tarball.WriteToFile(saved, tag, img))
			p := open(t, Options{Transport: s.transport, Architecture: "amd64", Sources: []string{saved}})
			for _, ref := range []string{s.host + "/app:1", tag.Name()} {
				if got := pulled(t, p, Request{Reference: ref}); got.DiskBytes == 0 {
					t.Errorf("%s has a disk of 0 bytes", ref)
				}
			}
		})
	}
}

func configOf(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func layerSize(t *testing.T, img v1.Image) int {
	t.Helper()
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return int(m.Layers[0].Size)
}

// A manifest may contain URLs of a layer. If they were followed, an image could make the host send requests to any
// address.
func TestManifestURLsAreNotFollowed(t *testing.T) {
	s, victim := newServer(t), newServer(t)
	foreign := static.NewLayer([]byte("x"),
		types.OCIRestrictedLayer) //nolint:staticcheck // the deprecated kind is the point
	img, err := mutate.Append(program(t, "one"), mutate.Addendum{
		Layer: foreign, MediaType: types.OCIRestrictedLayer,
		URLs: []string{"https://" + victim.host + "/latest/meta-data"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.push(t, "app:1", img)
	p := open(t, Options{Transport: both(s, victim)})
	_, err = p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
	says(t, err, "layer sha256:", "does not have it")
	if len(victim.requests) != 0 {
		t.Errorf("the host was made to ask %v", victim.requests)
	}
}

// A download from a registry that stalls in the middle of a layer is abandoned, and an interrupted download is
// retried.
func TestStalledDownloadsAreRetried(t *testing.T) {
	s := newServer(t)
	img := program(t, "one")
	s.push(t, "app:1", img)
	p := open(t, Options{Transport: s.transport, Stall: 20 * time.Millisecond})
	tries := 0
	s.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, firstLayer(t, img).Hex) {
			return false
		}
		if tries++; tries == 3 {
			p.stall = time.Minute // this one may be slow; a download reads the limit once it has the answer's header
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(layerSize(t, img)))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	pulled(t, p, Request{Reference: s.host + "/app:1"})
	if tries != 3 {
		t.Errorf("%d tries, want 3", tries)
	}
}

func TestDamagedLocalLayouts(t *testing.T) {
	for _, c := range []struct {
		idea   string
		damage func(t *testing.T, dir, blob string)
		want   string
	}{
		{
			"a missing layer", func(t *testing.T, dir, blob string) { must(t, os.Remove(blob)) },
			"incomplete; build or copy it again",
		},
		{"a cut layer", func(t *testing.T, dir, blob string) { must(t, os.Truncate(blob, 20)) }, "ended after 20 of"},
		{"a flipped byte", func(t *testing.T, dir, blob string) {
			data, err := os.ReadFile(blob)
			must(t, err)
			data[len(data)/2]++
			must(t, os.WriteFile(blob, data, 0o600))
		}, "the digest sha256:"},
		{"a layer that is a link to the host's files", func(t *testing.T, dir, blob string) {
			must(t, os.Remove(blob))
			must(t, os.Symlink("/etc/hostname", blob))
		}, "path escapes"},
		{
			"no index", func(t *testing.T, dir, blob string) { must(t, os.Remove(filepath.Join(dir, "index.json"))) },
			"an OCI layout has an index.json",
		},
		{"an index that is none", func(t *testing.T, dir, blob string) {
			must(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte("nothing"), 0o600))
		}, "index.json is no index"},
		{"an index of 0 bytes", func(t *testing.T, dir, blob string) {
			must(t, os.Truncate(filepath.Join(dir, "index.json"), 0))
		}, "index.json is no index"},
		{"a layer of 0 bytes", func(t *testing.T, dir, blob string) { must(t, os.Truncate(blob, 0)) }, "ended after 0 of"},
	} {
		t.Run(c.idea, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "layout")
			content := t.TempDir()
			must(t, os.WriteFile(filepath.Join(content, "program"), []byte(strings.Repeat("hello", 100)), 0o755))
			_, err := build.Layout(dir, build.Options{Dir: content, Tag: "example.local/app:1"})
			must(t, err)
			l, err := layout.ImageIndexFromPath(dir)
			must(t, err)
			m, err := l.IndexManifest()
			must(t, err)
			img, err := l.Image(m.Manifests[0].Digest)
			must(t, err)
			c.damage(t, dir, filepath.Join(dir, "blobs", "sha256", firstLayer(t, img).Hex))
			p := open(t, Options{Sources: []string{dir}})
			_, err = p.Pull(t.Context(), Request{Reference: "example.local/app:1"})
			says(t, err, "image example.local/app:1", dir, c.want)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestImageLimits(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, strings.Repeat("x", 100_000)))
	p := open(t, Options{Transport: s.transport, Limits: rootdisk.Limits{Bytes: 50_000}})
	_, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
	says(t, err, "layer sha256:", `entry "program"`, "more than 50000 bytes", "raise the limit")
	var refused *rootdisk.Refused
	if !errors.As(err, &refused) {
		t.Errorf("%v is no refusal", err)
	}
	if p.store.hold(blobName(firstLayer(t, program(t, strings.Repeat("x", 100_000))))) {
		t.Error("the refused image's layer stays in the cache")
	}
}
