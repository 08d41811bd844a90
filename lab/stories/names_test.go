package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Clusters run beside each other, each with its own name, data directory and context. Nothing done with one cluster
// affects another or loses a file of the user.
func TestClustersHaveNames(t *testing.T) {
	t.Parallel()
	a := up(t, "--boot-time", "0s")
	a.refusesAFolderOfOthers()
	a.wantContexts("nodeless-nodeless", a.dir)

	b := filepath.Join(a.home, ".local", "share", "nodeless-b")
	out := a.must("up", "--name", "b", "--detach", "--page", "127.0.0.1:0")
	t.Cleanup(func() { _, _ = a.run("down", "--name", "b") })
	a.wantContexts("nodeless-nodeless", a.dir, "nodeless-b", b)
	stop := a.runHints(out, "--name b")
	for _, command := range []string{
		"status --name b", "status --data-dir " + b, "top --name b",
		"why --name b nodepool/general-purpose", "kubectl --data-dir " + b + " get nodes",
	} {
		a.must(strings.Fields(command)...)
	}
	if got := a.must("kubectl", "get", "deployments"); strings.Contains(got, "web") {
		t.Errorf("what was created in b is in the other cluster:\n%s", got)
	}
	if got, err := a.run("status", "--name", "a", "--data-dir", b); err == nil || !strings.Contains(got, "is called b") {
		t.Errorf("two flags that disagree: %v %s", err, got)
	}
	a.pageOfAll()
	a.keepsToTheCommandLine("b", "nodeless-nodeless")

	a.types(stop)
	a.wantContexts("nodeless-nodeless", a.dir)
	keep := filepath.Join(b, "logs", "notes.txt")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.must("down", "--name", "b", "--wipe"); !strings.Contains(got, "logs/notes.txt") {
		t.Errorf("wipe does not say what it left: %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(b, "*")); len(left) != 1 || os.Remove(keep) != nil {
		t.Errorf("a wipe left %v of %s and the file", left, b)
	}
	a.sharesAName()
}

// pageOfAll: the page that web serves for one cluster links to those of all contexts, one of which has no cluster.
func (c *cluster) pageOfAll() {
	c.t.Helper()
	config := filepath.Join(c.home, ".kube", "config")
	c.must("kubectl", "config", "set-cluster", "none", "--server", "https://127.0.0.1:9", "--kubeconfig", config)
	c.must("kubectl", "config", "set-context", "none", "--cluster", "none", "--kubeconfig", config)
	link := c.web("127.0.0.1:0")
	c.eventually(time.Minute, func() error {
		resp, err := http.Get(strings.Replace(link, "/?", "/api/clusters/sums?", 1))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var all []struct {
			Name, Problem string
			Known         bool
			Totals        struct{ Nodes, Waiting, Running int }
		}
		if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
			return err
		}
		if len(all) != 3 || all[0].Name != "nodeless-b" || !all[0].Known || all[0].Totals.Nodes == 0 ||
			all[1].Name != "nodeless-nodeless" || !all[1].Known || all[1].Totals.Nodes != 0 ||
			all[2].Name != "none" || all[2].Known || !strings.Contains(all[2].Problem, "127.0.0.1:9") {
			return fmt.Errorf("the fleet is %+v", all)
		}
		return nil
	})
	for path, pods := range map[string]bool{"/": false, "/clusters/nodeless-nodeless/": false, "/clusters/nodeless-b/": true} {
		resp, err := http.Get(strings.Replace(link, "/?", path+"api/names?q=web&", 1))
		if err != nil {
			c.t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); strings.Contains(string(text), `"name":"web-`) != pods || resp.StatusCode != http.StatusOK {
			c.t.Errorf("the page at %s knows of pods of b: want %t: %s", path, pods, text)
		}
	}
	c.must("kubectl", "config", "delete-context", "none", "--kubeconfig", config)
	c.must("kubectl", "config", "delete-cluster", "none", "--kubeconfig", config)
}

// keepsToTheCommandLine: neither the environment nor the file of eks-node-viewer leads a command that names a cluster
// to another one.
func (c *cluster) keepsToTheCommandLine(name, elsewhere string) {
	c.t.Helper()
	c.must("kubectl", "--name", name, "create", "namespace", "only-there")
	file := filepath.Join(c.home, ".eks-node-viewer")
	if err := os.WriteFile(file, []byte("context="+elsewhere+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	for command, want := range map[string]string{
		"capture --name " + name:     "name: only-there",
		"top -o json --name " + name: `"context": "nodeless-` + name + `"`,
	} {
		cmd := exec.Command(binary, strings.Fields(command)...)
		cmd.Env = append(c.environment(), "NODELESS_CONTEXT="+elsewhere)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			c.t.Errorf("%s is led to %s: %v, %q is not in\n%s", command, elsewhere, err, want, out)
		}
		both := append(strings.Fields(command), "--context", elsewhere)
		if out, err := c.run(both...); err == nil || !strings.Contains(out, "--name") ||
			!strings.Contains(out, "--context") {
			c.t.Errorf("%v: %v %s", both, err, out)
		}
	}
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
}

// refusesAFolderOfOthers: `up` does not turn a folder with files into a data directory, and `down --wipe` deletes
// nothing in it.
func (c *cluster) refusesAFolderOfOthers() {
	c.t.Helper()
	theirs := filepath.Join(c.home, "project")
	keep := filepath.Join(theirs, "keep")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(keep, []byte("x"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	for _, command := range []string{
		"up --detach", "up", "down --wipe",
		"image build " + theirs + " --tag example.local/x:1",
	} {
		out, err := c.run(append(strings.Fields(command), "--data-dir", theirs)...)
		if err == nil || !strings.Contains(out, theirs) || !strings.Contains(out, "not made by nodeless") {
			c.t.Errorf("%s: %v %s", command, err, out)
		}
	}
	if files, _ := os.ReadDir(theirs); len(files) != 1 {
		c.t.Errorf("in %s there is now %v", theirs, files)
	}
}

// sharesAName: a second cluster of the same name never touches the context of the first.
func (c *cluster) sharesAName() {
	c.t.Helper()
	other := filepath.Join(c.home, "it's another")
	out := c.must("up", "--data-dir", other, "--detach", "--page", "")
	c.t.Cleanup(func() { _, _ = c.run("down", "--data-dir", other) })
	if !strings.Contains(out, `"nodeless-nodeless" belongs to the cluster in `+c.dir) || !strings.Contains(out, "--name") {
		c.t.Errorf("up says nothing of the context:\n%s", out)
	}
	c.wantContexts("nodeless-nodeless", c.dir)
	c.types(c.runHints(out, `--data-dir '`+c.home+`/it'\''s another'`) + " --wipe")
	c.wantContexts("nodeless-nodeless", c.dir)
	if _, err := os.Stat(other); err == nil {
		c.t.Errorf("a wipe left %s", other)
	}
}

// must runs the binary and fails the test if it fails.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("nodeless %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// wantContexts checks the contexts of the user's kubeconfig and the data directories of their clusters, the current
// one first.
func (c *cluster) wantContexts(pairs ...string) {
	c.t.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(c.home, ".kube", "config"))
	if err != nil {
		c.t.Fatal(err)
	}
	if len(config.Contexts) != len(pairs)/2 || config.CurrentContext != pairs[0] {
		c.t.Errorf("contexts %v, the current one is %q; want %v", config.Contexts, config.CurrentContext, pairs)
	}
	for i := 0; i < len(pairs); i += 2 {
		own, err := clientcmd.LoadFromFile(filepath.Join(pairs[i+1], "kubeconfig"))
		if err != nil {
			c.t.Fatal(err)
		}
		if have := config.Clusters[pairs[i]]; have == nil ||
			have.Server != own.Clusters[own.Contexts[own.CurrentContext].Cluster].Server {
			c.t.Errorf("context %s leads to %+v, not to the cluster in %s", pairs[i], have, pairs[i+1])
		}
	}
}

// runHints runs every command that `up` suggests, as printed, and returns the last one, which stops the cluster.
func (c *cluster) runHints(out, flag string) (stop string) {
	c.t.Helper()
	if !strings.Contains(out, "  Page        http://127.0.0.1:") && strings.Contains(flag, "--name") {
		c.t.Errorf("the page's address is not in:\n%s", out)
	}
	var commands []string
	_, hints, _ := strings.Cut(out, "Try:\n")
	for _, line := range strings.Split(hints, "\n") {
		command, is := strings.CutPrefix(line, "  ")
		if !is {
			continue
		}
		if strings.HasPrefix(command, binary) && !strings.Contains(command, flag) {
			c.t.Errorf("%q does not lead to the cluster, want %s", command, flag)
		}
		commands = append(commands, command)
	}
	if len(commands) < 5 || !strings.HasPrefix(commands[len(commands)-1], binary+" down") {
		c.t.Fatalf("commands %q in:\n%s", commands, out)
	}
	stop = commands[len(commands)-1]
	for _, command := range commands[:len(commands)-1] {
		c.types(command)
	}
	return stop
}

// types runs a command as if a user had typed it. The user's kubectl is ours, and there may be no AWS CLI.
func (c *cluster) types(command string) {
	c.t.Helper()
	tools := c.t.TempDir()
	for name, script := range map[string]string{"kubectl": fmt.Sprintf("exec %s kubectl \"$@\"",
		absolute(c.t, binary)), "aws": ""} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	sh := exec.Command("sh", "-c", command)
	sh.Env = append(c.environment(), "PATH="+tools+":"+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		c.t.Errorf("%s: %v\n%s", command, err, out)
	}
}
