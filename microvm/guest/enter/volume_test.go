package enter

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Containers that start at once may mount the same part of a volume.
func TestOnePathIsMadeByManyAtOnce(t *testing.T) {
	root := t.TempDir()
	for _, mode := range []os.FileMode{0o777 | os.ModeDir, 0} {
		for i := range 100 {
			path := fmt.Sprintf("%v/%d/new", mode, i)
			var work sync.WaitGroup
			for range 16 {
				work.Go(func() {
					if at, err := makeInside(root, path, mode); err != nil || at != filepath.Join(root, path) {
						t.Errorf("%q, %v", at, err)
					}
				})
			}
			work.Wait()
			if info, err := os.Stat(filepath.Join(root, path)); err != nil || mode.IsDir() && info.Mode() != mode {
				t.Fatalf("%s was made as %v, %v", path, info, err)
			}
		}
	}
}

// What cannot be resolved is not followed out of the volume.
func TestALinkToNowhereIsNoPath(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if at, err := makeInside(root, "link/new", 0o777|os.ModeDir); err == nil {
		t.Errorf("it was made at %s", at)
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("the link was followed")
	}
}
