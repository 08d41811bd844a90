package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// In a pod, and in many kubeconfigs, the CA certificates are in a file.
func TestMachinesTrustTheClusterThatTheControllerTrusts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, tls := range map[string]rest.TLSClientConfig{
		"from a file": {CAFile: file}, "as text": {CAData: []byte("as text"), CAFile: file}, "": {},
	} {
		if got, err := Authorities(&rest.Config{TLSClientConfig: tls}); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := Authorities(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file + "x"}}); err == nil {
		t.Error("a file that is not there was read")
	}
}

// Flags that name two clusters are refused, rather than one of them ignored.
func TestTheCommandLineNamesOneCluster(t *testing.T) {
	for _, place := range []string{"--name", "--data-dir"} {
		for _, other := range []string{"--kubeconfig", "--context"} {
			var f Flags
			set := pflag.NewFlagSet("roll", pflag.ContinueOnError)
			f.AddCluster(set)
			if err := set.Parse([]string{place, "test", other, "prod"}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Find(); err == nil || !strings.Contains(err.Error(), place+" ") ||
				!strings.Contains(err.Error(), other+" ") {
				t.Errorf("%s and %s: %v", place, other, err)
			}
		}
	}
}
