package vmm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The last words of a guest that panicked are its reason, no matter how long the trace after it is.
func TestLastWordsOfPanic(t *testing.T) {
	dir := t.TempDir()
	trace := strings.Repeat("[    2.799506]  ? asm_sysvec+0x1/0x2\r\n", 100)
	for _, c := range []struct{ console, want string }{
		{
			"booting\r\n[    2.7] Kernel panic - not syncing: Out of memory\r\n" + trace,
			"Kernel panic - not syncing: Out of memory",
		},
		{"one\ntwo\n", "one\ntwo"},
		{"", ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, consoleFile), []byte(c.console), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(dir); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, consoleFile), []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastWords(dir); len(got) > 2000 || !strings.HasSuffix(trace, got+"\r\n") {
		t.Errorf("%d bytes, want the last 2,000", len(got))
	}
}
