package httpguard_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

func TestATokenOutlivesARestartAndOnlyItsOwnerReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "token")
	first, err := httpguard.KeepToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := httpguard.KeepToken(path); err != nil || again != first {
		t.Errorf("after a restart the token is %q, not %q: %v", again, first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if made, err := httpguard.KeepToken(path); err != nil || made == first || len(made) != 43 {
		t.Errorf("instead of a damaged token: %q, %v", made, err)
	}
	if _, err := httpguard.KeepToken(filepath.Join(path, "x")); err == nil {
		t.Error("a token below a file was kept")
	}
}

func TestNobodyHasAnEmptyToken(t *testing.T) {
	token := httpguard.NewToken()
	for _, c := range []struct {
		got, want string
		same      bool
	}{{token, token, true}, {"", token, false}, {token[1:], token, false}, {"", "", false}, {token, "", false}} {
		if httpguard.Same(c.got, c.want) != c.same {
			t.Errorf("%q for %q", c.got, c.want)
		}
	}
	for header, want := range map[string]string{"Bearer x": "x", "bearer  x ": "x", "Basic x": "", "": "", "Bearer": ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		if got := httpguard.Bearer(r); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

// A client that announces a body and sends none does not occupy a handler for longer than the limit; a handler that
// has read the body may take its time.
func TestABodyHasADeadline(t *testing.T) {
	read := make(chan error, 1)
	s := httptest.NewServer(httpguard.ReadWithin(100*time.Millisecond,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			httpguard.BodyRead(w)
			if err == nil && r.URL.Path == "/slow" {
				select {
				case <-r.Context().Done():
					err = errors.New("the request ended while its handler worked")
				case <-time.After(300 * time.Millisecond):
				}
			}
			read <- err
		})))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a body that does not come: %v", err)
	}
	resp, err := http.Post(s.URL+"/slow", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := <-read; err != nil {
		t.Error(err)
	}
}
