package run

import (
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// All logs have one format, even those of the Kubernetes and Go libraries.
func TestEverybodyLogsInOneFormat(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before); klog.ClearLogger() })
	file := filepath.Join(t.TempDir(), "log")
	s := settings{logLevel: "info", logFormat: "json", logPaths: file}
	own, err := s.startLog()
	if err != nil {
		t.Fatal(err)
	}
	own.Info("of the controller")
	klog.Background().Info("of Kubernetes", "attempt", 1)
	klog.ErrorS(errors.New("refused"), "of Kubernetes")
	klog.Warningf("of %s", "Kubernetes")
	log.Print("of Go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 5 {
		t.Errorf("%d lines, want 5:\n%s", len(lines), text)
	}
	for _, line := range lines {
		var record struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" ||
			!strings.HasPrefix(record.Msg, "of ") {
			t.Errorf("%v: %s", err, line)
		}
	}
}
