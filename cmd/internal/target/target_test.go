package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/cmd/internal/program"
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

// While the cluster that the environment names is stopped, no command reads, or changes, another one instead. The
// command line wins over the environment.
func TestTheEnvironmentNamesOneCluster(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	prod, usual := filepath.Join(home, "config"), clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = prod
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = usual })
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "prod", "users": [{"name": "u", "user": {}}],
"clusters": [{"name": "c", "cluster": {"server": "https://prod.example"}}],
"contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}]}`
	if err := os.WriteFile(prod, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dataDir, kubeconfig, args, want string }{
		{"", "", "", "", "https://prod.example"},
		{"b", "", "", "", "nothing runs in "},
		{"", home, "", "", "nothing runs in "},
		{"b", "", prod, "", "nothing runs in "},
		{"b", "", "", "--kubeconfig " + prod, "https://prod.example"},
		{"b", "", "", "--context prod", "https://prod.example"},
		{"", "", "", "--name b", "nothing runs in "},
	} {
		t.Setenv("NODELESS_NAME", c.name)
		t.Setenv("NODELESS_DATA_DIR", c.dataDir)
		t.Setenv("KUBECONFIG", c.kubeconfig)
		var f Flags
		cmd := &cobra.Command{}
		f.AddCluster(cmd.Flags())
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if err := program.ReadEnvironment(cmd); err != nil {
			t.Fatal(err)
		}
		found, err := f.Find()
		if err != nil {
			found = &Cluster{Of: err.Error()}
		}
		if !strings.HasPrefix(found.Of, c.want) {
			t.Errorf("%+v: %q", c, found.Of)
		}
	}
}
