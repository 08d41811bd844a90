package target

import (
	"os"
	"path/filepath"
	"testing"

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
