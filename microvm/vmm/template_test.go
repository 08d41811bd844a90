package vmm

import (
	"os"
	"path/filepath"
	"testing"
)

// A template whose state or memory was removed is not cloned: QEMU would create an empty memory.
func TestTemplateIsWhole(t *testing.T) {
	for _, removed := range []string{"", "state", "memory"} {
		dir := t.TempDir()
		files := &templateFiles{state: filepath.Join(dir, "state"), memory: filepath.Join(dir, "memory")}
		for _, path := range []string{files.state, files.memory} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if removed != "" {
			if err := os.Remove(filepath.Join(dir, removed)); err != nil {
				t.Fatal(err)
			}
		}
		made := &template{}
		made.ready.Store(files)
		state, memory := made.open()
		if whole := removed == ""; (state != nil) != whole || (memory != "") != whole || (made.ready.Load() != nil) != whole {
			t.Errorf("without %q: state %v, memory %q", removed, state, memory)
		}
		_ = state.Close()
	}
}
