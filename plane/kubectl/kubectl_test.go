package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type result struct {
	code        int
	out, errOut string
}

func run(kubeconfig string, args ...string) result { return runWithout("", kubeconfig, args...) }

// runWithout runs kubectl while the kubeconfig's cluster is not running, for the reason in missing.
func runWithout(missing, kubeconfig string, args ...string) result {
	var out, errOut bytes.Buffer
	code := Run(args, kubeconfig, missing, strings.NewReader(""), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// cluster is an API server that serves only its version, which contains the given name.
func cluster(t *testing.T, name string) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.2+" + name})
	}))
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: %[1]s, cluster: {server: %[2]q}}]
contexts: [{name: %[1]s, context: {cluster: %[1]s}}]
current-context: %[1]s
`, name, s.URL), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestItTalksToOurClusterUnlessAnotherIsNamed(t *testing.T) {
	ours, theirs := cluster(t, "ours"), cluster(t, "theirs")
	t.Setenv("KUBECONFIG", theirs)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "+ours"},
		{[]string{"config", "current-context"}, "ours"},
		{[]string{"version", "--context", "theirs"}, "+theirs"},
		{[]string{"--kubeconfig=" + theirs, "version"}, "+theirs"},
		{[]string{"config", "current-context", "--kubeconfig", theirs}, "theirs"},
	} {
		if got := run(ours, c.args...); got.code != 0 || !strings.Contains(got.out, c.want) {
			t.Errorf("kubectl %v: %+v, want exit 0 and %q", c.args, got, c.want)
		}
	}
	if os.Getenv("KUBECONFIG") != theirs {
		t.Error("the user's KUBECONFIG was changed")
	}
}

// Some subcommands have flags of their own with the names of those that select a cluster.
func TestASubcommandsOwnFlagsNameNoCluster(t *testing.T) {
	ours, theirs := cluster(t, "ours"), cluster(t, "theirs")
	t.Setenv("KUBECONFIG", theirs)
	before, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"config set-context ours --user=jane":                `Context "ours" modified.`,
		"config set-context ours --cluster ours":             `Context "ours" modified.`,
		"config set-cluster ours --server=https://192.0.2.1": `Cluster "ours" set.`,
	} {
		if got := run(ours, strings.Fields(args)...); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("kubectl %s: %+v, want exit 0 and %q", args, got, want)
		}
	}
	if after, err := os.ReadFile(theirs); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the user's kubeconfig was changed (%v):\n%s", err, after)
	}
	const missing = "ours does not run"
	for args, ours := range map[string]bool{
		"create clusterrolebinding b --clusterrole=view --user=jane":         true,
		"-n a create rolebinding b --clusterrole view --user jane":           true,
		"set subject clusterrolebinding b --user=jane":                       true,
		"create clusterrolebinding b --user=jane --kubeconfig=/no/such/file": false,
		"get pods --user jane":                      false,
		"get pods --token=t -s https://127.0.0.1:1": false,
	} {
		got := runWithout(missing, "/nowhere", strings.Fields(args)...)
		if got.code != 1 || strings.Contains(got.errOut, missing) != ours {
			t.Errorf("kubectl %s: %+v, want our cluster: %t", args, got, ours)
		}
	}
}

func TestExitCodesAndMessagesAreKubectls(t *testing.T) {
	ours := cluster(t, "ours")
	if got := run(ours, "get", "pods"); got.code != 1 || got.errOut == "" {
		t.Errorf("a server that knows no pods: %+v", got)
	}
	if got := run(ours, "get", "--no-such-flag"); got.code != 1 ||
		!strings.Contains(got.errOut, "unknown flag: --no-such-flag") {
		t.Errorf("an unknown flag: %+v", got)
	}
	if got := run(ours, "version", "--client"); got.code != 0 || !strings.Contains(got.out, "Client Version: v1.36.") {
		t.Errorf("version: %+v", got)
	}
}

func TestWithoutAClusterItSaysWhatToDo(t *testing.T) {
	const missing = "nothing runs; start it with: nodeless up"
	ours := cluster(t, "ours") // kubeconfig of a stopped cluster
	if got := runWithout(missing, ours, "-n", "default", "get", "pods"); got.code != 1 ||
		!strings.Contains(got.errOut, missing) {
		t.Errorf("get pods: %+v", got)
	}
	if got := runWithout(missing, ours, "get", "--help"); got.code != 0 || !strings.Contains(got.out, "Usage") {
		t.Errorf("help: %+v", got)
	}
	if got := runWithout(missing, ours, "version", "--client"); got.code != 0 {
		t.Errorf("version: %+v", got)
	}
}
