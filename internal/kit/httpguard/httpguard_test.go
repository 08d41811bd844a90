package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

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
