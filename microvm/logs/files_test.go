package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesAreBounded(t *testing.T) {
	f, err := openFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.most, f.keep = 100, 3
	for n := range 10 {
		for range 5 {
			if err := f.append(fmt.Sprintf("files/%d", n), make([]byte, 60)); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, _ := filepath.Glob(filepath.Join(f.root.Name(), "files", "*"))
	if len(left) > 4 { // the three that are kept, and one rotated since the last cleanup
		t.Errorf("left: %v", left)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err != nil || info.Size() > 160 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
