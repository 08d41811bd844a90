//go:build !noplane

package up

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// A second `nodeless up` fails since the cluster already runs. Until then, it must not empty the first one's log.
func TestTheLogOfARunningClusterIsKept(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	dir := t.TempDir()
	begin := func() *local {
		l := &local{o: upOptions{Selector: localcluster.Selector{DataDir: dir}}}
		if err := l.openLog(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.stop)
		return l
	}
	begin().log.Info("an earlier run")
	first := begin()
	release, err := datadir.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	first.log.Info("one")
	begin().log.Info("two")
	first.log.Info("three")
	text, err := os.ReadFile(filepath.Join(dir, "logs", "nodeless.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "one") || !strings.Contains(lines[2], "three") {
		t.Errorf("the log is %q", text)
	}
}
