//go:build !noplane

package up

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
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
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "types.json"))
	if err != nil {
		t.Fatal(err)
	}
	first := upOptions{
		Selector:  localcluster.Selector{DataDir: dir},
		typesFile: write(t, filepath.Join(elsewhere, "types.json"), string(text)),
	}
	if err := first.settleTypes(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.offers(); err != nil {
		t.Errorf("the example: %v", err)
	}
	write(t, localcluster.RegionFile(dir), "us-west-2\n")
	if err := first.keepTypes(); err != nil {
		t.Fatal(err)
	}
	again := upOptions{Selector: localcluster.Selector{DataDir: dir}}
	if err := again.settleTypes(); err != nil || again.types == nil || len(again.types.Types) != len(first.types.Types) {
		t.Errorf("the types were not kept: %v", err)
	}
	other := upOptions{
		Selector:  localcluster.Selector{DataDir: dir},
		typesFile: write(t, filepath.Join(elsewhere, "other.json"), `{"zones": ["a"], "types": []}`),
	}
	if err := other.settleTypes(); err == nil || !strings.Contains(err.Error(), "other types") {
		t.Errorf("other types for the same cluster: %v", err)
	}
	aws := upOptions{Selector: localcluster.Selector{DataDir: t.TempDir()}}
	write(t, localcluster.RegionFile(aws.DataDir), "us-west-2\n")
	aws.typesFile = first.typesFile
	if err := aws.settleTypes(); err == nil {
		t.Error("a cluster of AWS's types was given others")
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
		o := upOptions{Selector: localcluster.Selector{DataDir: t.TempDir()}, typesFile: file}
		if err := o.settleTypes(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("up: %v, want the file and %s", err, want)
		}
	}
	damaged := upOptions{Selector: localcluster.Selector{DataDir: t.TempDir()}}
	write(t, localcluster.TypesFile(damaged.DataDir), "{")
	if err := damaged.settleTypes(); err == nil ||
		!strings.Contains(err.Error(), localcluster.TypesFile(damaged.DataDir)) {
		t.Errorf("the types of a cluster are damaged: %v, want the file", err)
	}
}
