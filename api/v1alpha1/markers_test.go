package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A controller-gen marker is on a line of its own. A marker that is wrapped together with others would silently drop
// its validation from the definition.
func TestEveryMarkerIsALineOfItsOwn(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			comment, ok := strings.CutPrefix(strings.TrimSpace(line), "// ")
			if ok && (strings.Contains(comment, " +kubebuilder:") || strings.HasSuffix(comment, " +optional") ||
				strings.HasPrefix(comment, "+kubebuilder:") && strings.Count(comment, `"`)%2 != 0) {
				t.Errorf("%s:%d: %s", file, n+1, line)
			}
		}
	}
}
