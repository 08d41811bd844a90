package run

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log says where the page and its token are, but not the token: logs are read by many.
func TestThePagesTokenIsNotLogged(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var log strings.Builder
	token, forget, err := pageToken(slog.New(slog.NewTextHandler(&log, nil)), "127.0.0.1:8082")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "*", "token"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("%v, %v; want a file that only its owner may read", info, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || strings.TrimSpace(string(text)) != token || token == "" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if text := log.String(); strings.Contains(text, token) || !strings.Contains(text, files[0]) ||
		!strings.Contains(text, "http://127.0.0.1:8082/") {
		t.Errorf("the log says %s", text)
	}
	forget()
	if _, err := os.Stat(files[0]); err == nil {
		t.Error("the token stays after the page has ended")
	}
}
