//go:build !noplane

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAClusterKeepsTheTypesItWasMadeWith(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "types.json"))
	if err != nil {
		t.Fatal(err)
	}
	first := upOptions{
		place:     place{dataDir: dir},
		typesFile: write(t, filepath.Join(elsewhere, "types.json"), string(text)),
	}
	if err := first.settleTypes(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.offers(); err != nil {
		t.Errorf("the example: %v", err)
	}
	write(t, regionFile(dir), "us-west-2\n")
	if err := first.keepTypes(); err != nil {
		t.Fatal(err)
	}
	again := upOptions{place: place{dataDir: dir}}
	if err := again.settleTypes(); err != nil || again.types == nil || len(again.types.Types) != len(first.types.Types) {
		t.Errorf("the types were not kept: %v", err)
	}
	other := upOptions{
		place:     place{dataDir: dir},
		typesFile: write(t, filepath.Join(elsewhere, "other.json"), `{"zones": ["a"], "types": []}`),
	}
	if err := other.settleTypes(); err == nil || !strings.Contains(err.Error(), "other types") {
		t.Errorf("other types for the same cluster: %v", err)
	}
	aws := upOptions{place: place{dataDir: t.TempDir()}}
	write(t, regionFile(aws.dataDir), "us-west-2\n")
	aws.typesFile = first.typesFile
	if err := aws.settleTypes(); err == nil {
		t.Error("a cluster of AWS's types was given others")
	}
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

func TestTypesThatCannotBeNodesAreRefusedBeforeTheStart(t *testing.T) {
	const rest = `"vcpu": 1, "memoryMiB": 1024, "onDemand": 1`
	for want, text := range map[string]string{
		`zone "a b"`:        `{"zones": ["a b"], "types": [{"name": "t", ` + rest + `}]}`,
		`type "t/x"`:        `{"zones": ["a"], "types": [{"name": "t/x", ` + rest + `}]}`,
		`"my key"`:          `{"zones": ["a"], "types": [{"name": "t", "labels": {"my key": "v"}, ` + rest + `}]}`,
		`"v v"`:             `{"zones": ["a"], "types": [{"name": "t", "labels": {"k": "v v"}, ` + rest + `}]}`,
		`type "t": vcpu`:    `{"zones": ["a"], "types": [{"name": "t"}]}`,
		"is there twice":    `{"zones": ["a"], "types": [{"name": "t", ` + rest + `}, {"name": "t", ` + rest + `}]}`,
		"something follows": `{"zones": ["a"], "types": [{"name": "t", ` + rest + `}]} more`,
	} {
		file := write(t, filepath.Join(t.TempDir(), "types.json"), text)
		o := upOptions{place: place{dataDir: t.TempDir()}, typesFile: file}
		if err := o.settleTypes(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("up: %v, want the file and %s", err, want)
		}
		if _, err := readTypes(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run: %v, want %s", err, want)
		}
	}
	damaged := upOptions{place: place{dataDir: t.TempDir()}}
	write(t, typesFile(damaged.dataDir), "{")
	if err := damaged.settleTypes(); err == nil || !strings.Contains(err.Error(), typesFile(damaged.dataDir)) {
		t.Errorf("the types of a cluster are damaged: %v, want the file", err)
	}
}

func TestUpRefusesChoicesBeforeItBegins(t *testing.T) {
	for flag, value := range map[string]string{"--feature-gates": "NodeRepair", "--preference-policy": "Sometimes"} {
		root := newRoot()
		root.SetArgs([]string{"up", "--detach", "--data-dir", filepath.Join(t.TempDir(), "d"), flag, value})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
}
