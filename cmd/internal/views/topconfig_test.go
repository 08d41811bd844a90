package views

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// The file of eks-node-viewer chooses the cluster only where the command line does not.
func TestTheViewersFileDoesNotMoveTheCommandLine(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	text := "context=prod\nkubeconfig=/prod\nnode-sort=price\n"
	if err := os.WriteFile(filepath.Join(home, ".eks-node-viewer"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string][2]string{
		"--name=test": {}, "--data-dir=/test": {}, "--no-headers": {"prod", "/prod"}, "--context=test": {"test", "/prod"},
	} {
		var f topFlags
		c := &cobra.Command{}
		f.add(c)
		if err := c.ParseFlags([]string{flag}); err != nil {
			t.Fatal(err)
		}
		if err := fromViewersFile(c); err != nil {
			t.Fatal(err)
		}
		if got := [2]string{f.context, f.kubeconfig}; got != want || f.sort != "price" {
			t.Errorf("%s: context and kubeconfig %q, want %q; --node-sort %s", flag, got, want, f.sort)
		}
	}
}
