package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const theirs = `# my clusters
apiVersion: v1
kind: Config
clusters:
- name: prod # do not touch
  cluster:
    server: https://prod.example.com
    certificate-authority: certs/prod.crt
    some-new-field: kept
users:
- name: me
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}
contexts:
- name: prod
  context: {cluster: prod, user: me, namespace: shop}
current-context: prod
`

// ours writes the kubeconfig of an embedded cluster at the given server.
func ours(t *testing.T, server string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("authority")}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "ours")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// user sets $KUBECONFIG to a kubeconfig with the given content ("": none).
func user(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kube", "config")
	t.Setenv("KUBECONFIG", path+string(filepath.ListSeparator)+"/elsewhere")
	if content != "" {
		write(t, path, content)
	}
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// own is the context of these tests' cluster; nothing else runs on this machine.
var own = Context{Name: "nodeless-a", DataDir: "/data/a"}

func nothing(string) bool { return false }

func merge(t *testing.T, from string) {
	t.Helper()
	if err := own.Merge(from, nothing); err != nil {
		t.Fatal(err)
	}
}

func TestTheContextComesAndGoesAndNothingElseChanges(t *testing.T) {
	path := user(t, theirs)
	merge(t, ours(t, "https://127.0.0.1:1"))
	merge(t, ours(t, "https://127.0.0.1:16443")) // the next run, on another port

	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.CurrentContext != "prod" || len(c.Contexts) != 2 || len(c.Clusters) != 2 || len(c.AuthInfos) != 2 {
		t.Errorf("current context %q, contexts %v", c.CurrentContext, c.Contexts)
	}
	cluster, who := c.Clusters[c.Contexts["nodeless-a"].Cluster], c.AuthInfos[c.Contexts["nodeless-a"].AuthInfo]
	if cluster.Server != "https://127.0.0.1:16443" || string(cluster.CertificateAuthorityData) != "authority" ||
		string(who.ClientCertificateData) != "certificate" || string(who.ClientKeyData) != "key" {
		t.Errorf("cluster %+v, user %+v", cluster, who)
	}
	for _, kept := range []string{
		"# my clusters", "# do not touch", "some-new-field: kept",
		"certificate-authority: certs/prod.crt", "namespace: shop",
	} {
		if !strings.Contains(read(t, path), kept) {
			t.Errorf("lost: %s", kept)
		}
	}

	if err := own.Remove(); err != nil {
		t.Fatal(err)
	}
	normal := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if got := read(t, path); normal(got) != normal(theirs) {
		t.Errorf("after removal:\n%s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}

func TestWithoutAKubeconfigOneIsMade(t *testing.T) {
	path := user(t, "")
	if err := own.Remove(); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	merge(t, ours(t, "https://127.0.0.1:16443"))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	c, err := clientcmd.LoadFromFile(path)
	if err != nil || c.CurrentContext != "nodeless-a" {
		t.Fatalf("a first context should be the current one: %+v %v", c, err)
	}
	if err := own.Remove(); err != nil {
		t.Fatal(err)
	}
	if c, err := clientcmd.LoadFromFile(path); err != nil || c.CurrentContext != "" ||
		len(c.Contexts)+len(c.Clusters)+len(c.AuthInfos) != 0 {
		t.Errorf("left: %+v %v", c, err)
	}
	merge(t, ours(t, "https://127.0.0.1:16443"))
	if c, err := clientcmd.LoadFromFile(path); err != nil || c.CurrentContext != "nodeless-a" {
		t.Errorf("once more: %+v %v", c, err)
	}
}

func TestAnEmptyListOrFileIsNoObstacle(t *testing.T) {
	for _, content := range []string{
		"\n", "# only a comment\n",
		"apiVersion: v1\nkind: Config\nclusters: []\nusers: null\ncontexts:\n", `{"apiVersion":"v1","kind":"Config"}`,
	} {
		path := user(t, content)
		merge(t, ours(t, "https://127.0.0.1:16443"))
		if c, err := clientcmd.LoadFromFile(path); err != nil || c.Contexts["nodeless-a"] == nil ||
			c.AuthInfos["nodeless-a"] == nil {
			t.Errorf("%q became %q (%v)", content, read(t, path), err)
		}
	}
}

func TestAMalformedKubeconfigIsLeftAlone(t *testing.T) {
	for _, content := range []string{
		"clusters: [", "- a list", "just text",
		"apiVersion: v1\nkind: Config\nclusters: {a: b}\n", "\tx: y",
	} {
		path := user(t, content)
		err := own.Merge(ours(t, "https://127.0.0.1:16443"), nothing)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%q: %v", content, err)
		}
		if got := read(t, path); got != content {
			t.Errorf("%q became %q", content, got)
		}
		if err := own.Remove(); err == nil {
			t.Errorf("%q: removed without a word", content)
		}
	}
}

func TestAContextOfSomebodyElseIsRespected(t *testing.T) {
	for _, content := range []string{
		strings.ReplaceAll(theirs, "name: prod", "name: nodeless-a"),
		strings.ReplaceAll(theirs, "name: me", "name: nodeless-a"),
	} {
		path := user(t, content)
		err := own.Merge(ours(t, "https://127.0.0.1:16443"), nothing)
		if err == nil || !strings.Contains(err.Error(), `"nodeless-a"`) || !strings.Contains(err.Error(), "--name") {
			t.Errorf("got %v", err)
		}
		if err := own.Remove(); err != nil {
			t.Error(err)
		}
		if read(t, path) != content {
			t.Error("the file was changed")
		}
	}
}

// Two clusters with the same name: the context belongs to the one that runs.
func TestTheContextOfAClusterThatRunsIsLeftAlone(t *testing.T) {
	path := user(t, theirs)
	merge(t, ours(t, "https://127.0.0.1:16443"))
	before := read(t, path)
	other := Context{Name: own.Name, DataDir: "/data/other"}
	err := other.Merge(ours(t, "https://127.0.0.1:16444"), func(dir string) bool { return dir == own.DataDir })
	if err == nil || !strings.Contains(err.Error(), own.DataDir) || !strings.Contains(err.Error(), "--name") {
		t.Errorf("got %v", err)
	}
	if err := other.Remove(); err != nil {
		t.Error(err)
	}
	if read(t, path) != before || DataDir(own.Name) != own.DataDir {
		t.Errorf("the context was changed:\n%s", read(t, path))
	}
	if err := other.Merge(ours(t, "https://127.0.0.1:16444"), nothing); err != nil {
		t.Fatal(err)
	}
	if DataDir(own.Name) != other.DataDir || !strings.Contains(read(t, path), "16444") {
		t.Errorf("a context of a cluster that has ended:\n%s", read(t, path))
	}
	if _, err := clientcmd.LoadFromFile(path); err != nil {
		t.Error(err)
	}
}

func TestAReadOnlyFileIsLeftAlone(t *testing.T) {
	path := user(t, theirs)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	err := own.Merge(ours(t, "https://127.0.0.1:16443"), nothing)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "chmod u+w") ||
		read(t, path) != theirs {
		t.Errorf("got %v\n%s", err, read(t, path))
	}
}

func TestALinkToAFileThatIsStillToBeMade(t *testing.T) {
	path := user(t, "")
	dotfile := filepath.Join(t.TempDir(), "dots", "config")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dotfile, path); err != nil {
		t.Fatal(err)
	}
	merge(t, ours(t, "https://127.0.0.1:16443"))
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 ||
		!strings.Contains(read(t, dotfile), "16443") {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if err := os.Remove(dotfile); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, dotfile); err != nil {
		t.Fatal(err)
	}
	if err := own.Merge(ours(t, "https://127.0.0.1:16443"), nothing); err == nil ||
		!strings.Contains(err.Error(), "loop") {
		t.Errorf("got %v", err)
	}
}

func TestALinkStaysALinkAndModesStay(t *testing.T) {
	path := user(t, "")
	dotfile := filepath.Join(t.TempDir(), "dotfile")
	write(t, dotfile, theirs)
	if err := os.Chmod(dotfile, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dotfile, path); err != nil {
		t.Fatal(err)
	}
	merge(t, ours(t, "https://127.0.0.1:16443"))
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err := os.Stat(dotfile); err != nil || info.Mode().Perm() != 0o640 ||
		!strings.Contains(read(t, dotfile), "16443") {
		t.Errorf("%v %v", info, err)
	}
}

func TestALockedFileIsNamed(t *testing.T) {
	path := user(t, theirs)
	write(t, path+".lock", "")
	if err := own.Merge(ours(t, "https://127.0.0.1:16443"), nothing); err == nil ||
		!strings.Contains(err.Error(), path+".lock") {
		t.Errorf("got %v", err)
	}
	if read(t, path) != theirs {
		t.Error("the file was changed")
	}
}
