package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/image/build"
)

// server is a TLS registry that may require a password, and records requests.
type server struct {
	host      string
	transport http.RoundTripper
	password  string // of the user "dev"; empty = none required

	mu       sync.Mutex
	requests []string
	// answer, if set, may respond to a request instead of the registry.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); s.password != "" && p != s.password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		answer := s.answer
		s.mu.Unlock()
		if answer != nil && answer(w, r) {
			return
		}
		inner.ServeHTTP(w, r)
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	s.host = strings.TrimPrefix(web.URL, "https://")
	s.transport = web.Client().Transport
	if pool := web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs; pool.Equal(x509.NewCertPool()) {
		t.Fatal("the test server has no certificate")
	}
	return s
}

// asked counts the requests with a method and a part of the path, and forgets them.
func (s *server) asked(method, part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if m, path, _ := strings.Cut(r, " "); m == method && strings.Contains(path, part) {
			n++
		}
	}
	return n
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *server) intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *server) push(t *testing.T, repoTag string, img v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/" + repoTag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(s.transport), remote.WithAuth(s.auth())); err != nil {
		t.Fatal(err)
	}
	s.forget()
}

func (s *server) auth() authn.Authenticator {
	return authn.FromConfig(authn.AuthConfig{Username: "dev", Password: s.password})
}

// open opens a fresh cache.
func open(t *testing.T, o Options) *Puller {
	t.Helper()
	return openAt(t, t.TempDir(), o)
}

func openAt(t *testing.T, dir string, o Options) *Puller {
	t.Helper()
	p, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func pulled(t *testing.T, p *Puller, r Request) *Image {
	t.Helper()
	img, err := p.Pull(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(img.Release)
	return img
}

// program returns an image with one file.
func program(t *testing.T, content string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := build.Image(build.Options{Dir: dir, Config: v1.Config{Entrypoint: []string{"/program"}}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// withLayer adds a layer with one entry.
func withLayer(t *testing.T, img v1.Image, h tar.Header) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, l); err != nil {
		t.Fatal(err)
	}
	return img
}

func forArchitecture(t *testing.T, arch string) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func pullSecret(host, user, password string) corev1.Secret {
	return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: []byte(`{"auths":{"` + host + `":{"username":"` + user + `","password":"` + password +
			`"}}}`),
	}}
}

// says fails unless the error contains every part.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// contents returns every file of a directory, one after the other.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}
