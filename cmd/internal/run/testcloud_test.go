//go:build conformance

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKindOfNodeClassIsReadFromAFile(t *testing.T) {
	dir := t.TempDir()
	kind, err := readClassKind(write(t, filepath.Join(dir, "kind.yaml"),
		"apiVersion: example.com/v1\nkind: LabClass\nspec: {role: r}\n"))
	if err != nil || kind.Kind != "LabClass" || kind.Group != "example.com" || kind.Spec(nil).Role != "r" {
		t.Errorf("%+v, %v", kind, err)
	}
	for want, text := range map[string]string{
		"needs apiVersion": "apiVersion: v1\nkind: LabClass\n",
		"unknown field":    "apiVersion: a/v1\nkind: LabClass\nspek: {}\n",
	} {
		if _, err := readClassKind(write(t, filepath.Join(dir, "bad.yaml"), text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a word on %s", text, err, want)
		}
	}
	if _, err := readClassKind(filepath.Join(dir, "missing.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}
