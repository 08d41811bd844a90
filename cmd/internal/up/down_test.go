//go:build !noplane

package up

import (
	"os"
	"testing"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/progress"
)

// A mistyped --data-dir leaves the session.json of another program.
func TestDownLeavesFoldersOfOthers(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	dir := t.TempDir()
	file := localcluster.SessionFile(dir)
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, wipe := range []bool{false, true} {
		err := down(t.Context(), dir, wipe, true, 0, progress.New(silent))
		if (err != nil) != wipe {
			t.Errorf("--wipe=%t: %v; only a wipe is refused", wipe, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "{}" {
			t.Fatalf("--wipe=%t: the file of others is %q, %v", wipe, text, err)
		}
	}
}
