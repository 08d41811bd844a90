package image

import (
	"net/http"
	"strings"
	"testing"
)

func TestMirrorsBeforeRegistry(t *testing.T) {
	mirror, origin := newServer(t), newServer(t)
	mirror.push(t, "proxy/app:1", program(t, "mirrored"))
	origin.push(t, "app:1", program(t, "mirrored"))
	origin.push(t, "rare:1", program(t, "rare"))
	mirrors, err := ParseMirrors([]string{origin.host + "=https://" + mirror.host + "/proxy"})
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, Options{Transport: both(mirror, origin), Mirrors: mirrors})
	img := pulled(t, p, Request{Reference: origin.host + "/app:1"})
	if len(origin.requests) != 0 || !strings.HasPrefix(img.Digest, origin.host+"/app@") {
		t.Errorf("%s: the registry was asked %v", img.Digest, origin.requests)
	}
	pulled(t, p, Request{Reference: origin.host + "/rare:1"})
	if _, err := p.Pull(t.Context(), Request{Reference: origin.host + "/none:1"}); err == nil ||
		strings.Count(err.Error(), "does not have it") != 2 {
		t.Errorf("an image that is nowhere: %v", err)
	}
	for _, bad := range []string{
		"", "docker.io", "docker.io=mirror", "docker.io=ftp://m", "=https://m",
		"docker.io=https://",
	} {
		_, err := ParseMirrors([]string{bad})
		says(t, err, "REGISTRY=http")
	}
}

// both reaches two test servers by their own certificates.
func both(a, b *server) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == a.host {
			return a.transport.RoundTrip(r)
		}
		return b.transport.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
