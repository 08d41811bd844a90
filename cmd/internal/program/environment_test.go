package program

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A cluster that the command line names is not replaced by one that the environment names.
func TestTheEnvironmentDoesNotMoveTheCommandLine(t *testing.T) {
	for _, name := range []string{"NAME", "DATA_DIR", "CONTEXT", "KUBECONFIG", "AS"} {
		t.Setenv("NODELESS_"+name, "environment")
	}
	for args, want := range map[string]string{
		"":                  "name data-dir context kubeconfig as",
		"--name test":       "as",
		"--data-dir /test":  "as",
		"--context test":    "name data-dir kubeconfig as",
		"--as test":         "name data-dir context kubeconfig",
		"--kubeconfig test": "name data-dir context as",
	} {
		c := &cobra.Command{}
		flags := []string{"name", "data-dir", "context", "kubeconfig", "as"}
		for _, name := range flags {
			c.Flags().String(name, "", "")
		}
		if err := c.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := ReadEnvironment(c); err != nil {
			t.Fatal(err)
		}
		var set []string
		for _, name := range flags {
			if value, _ := c.Flags().GetString(name); value == "environment" {
				set = append(set, name)
			}
		}
		if got := strings.Join(set, " "); got != want {
			t.Errorf("%q: the environment sets %s, want %s", args, got, want)
		}
	}
}
