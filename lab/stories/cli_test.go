package stories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// speak runs the program under a name, as a user without any cluster. It returns stderr separately.
func speak(t *testing.T, name string, args ...string) (stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %q: %v\n%s", filepath.Base(name), args, err, errs.String())
	}
	return out.String(), errs.String()
}

// docs/cli.md is generated from the commands' own help.
func TestTheReferenceOfCommandsIsCurrent(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(root, "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := speak(t, absolute(t, binary), "reference"); got != string(want) {
		a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("docs/cli.md is stale from line %d on; make it again: make generate-cli\nsays\n%s\nwant\n%s", i+1,
					b[i], a[i])
			}
		}
		t.Fatalf("docs/cli.md has %d lines, want %d; make it again: make generate-cli", len(b), len(a))
	}
}

// The name alone, without arguments, prints an overview and where to start.
func TestANameAloneTeaches(t *testing.T) {
	out, _ := speak(t, absolute(t, binary))
	for _, want := range []string{
		"nodeless up --demo", "nodeless run", "nodeless why pod/NAME",
		"nodeless plan -f FILE", "Available Commands", "completion", "--help",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// As a kubectl plugin, the program calls itself what people type, in help, examples and errors, and answers kubectl's
// completion requests.
func TestAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plugin, completer := filepath.Join(dir, "kubectl-nodeless"), filepath.Join(dir, "kubectl_complete-nodeless")
	for _, name := range []string{plugin, completer} {
		if err := os.Symlink(absolute(t, binary), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{
		"", "why", "plan", "top", "decisions", "savings", "capture", "simulate", "rbac",
		"crds", "web", "up",
	} {
		out, _ := speak(t, plugin, append(strings.Fields(command), "--help")...)
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "nodeless ") || strings.Contains(line, `"nodeless `) ||
				strings.Contains(line, "kubectl kubectl") {
				t.Errorf("%s --help says %q", command, line)
			}
		}
		if !strings.Contains(out, "kubectl nodeless") {
			t.Errorf("%s --help:\n%s", command, out)
		}
	}
	out, _ := speak(t, completer, "why", "")
	if !strings.Contains(out, "pod/\n") || !strings.Contains(out, "nodepool/\n") {
		t.Errorf("kubectl is told\n%s", out)
	}
	cmd := exec.Command(plugin, "why")
	cmd.Env = []string{"HOME=" + dir}
	if out, err := cmd.CombinedOutput(); err == nil ||
		!strings.HasPrefix(string(out), "kubectl nodeless: ask for one object") ||
		!strings.Contains(string(out), ": kubectl nodeless decisions") {
		t.Errorf("why without an object: %v\n%s", err, out)
	}
}

// Without a cluster, or with one that does not respond, Tab completes nothing, quickly and silently.
func TestCompletionIsSilentWithoutACluster(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: gone\nclusters: [{name: gone, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: gone, context: {cluster: gone}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"why", "pod/"},
		{"why", "--kubeconfig", config, "node/"},
		{"decisions", "--kubeconfig", config, "-n", ""},
		{"plan", "--kubeconfig", config, "--scale", "d"},
	} {
		out, errs := speak(t, absolute(t, binary), append([]string{"__complete"}, args...)...)
		if strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, ":") || strings.Count(errs, "\n") > 1 {
			t.Errorf("%q: %q, stderr %q", args, out, errs)
		}
	}
	if out, _ := speak(t, absolute(t, binary), "__complete", "why", "--kubeconfig", config, "--context",
		""); !strings.HasPrefix(out, "gone\n") {
		t.Errorf("contexts: %q", out)
	}
}

// completes presses Tab in a cluster that runs some pods.
func (c *cluster) completes(node string) {
	c.t.Helper()
	for words, want := range map[string]string{
		"why |pod/hu": "pod/huge", "why |pod|hu": "huge", "why |node/": "node/" + node,
		"decisions |nodepool/":      "nodepool/general-purpose",
		"plan|--scale|deployment/w": "deployment/web=", "plan|--delete|nodepool/": "nodepool/general-purpose",
		"why |-n|kube-": "kube-system",
		"top |":         "decisions", "decisions|-o|": "custom-columns=", "kubectl|get|deploy": "deployments.apps",
		"kubectl|get|deployments|w": "web",
	} {
		args := []string{"__complete"}
		for _, w := range strings.Split(words, "|") {
			args = append(args, strings.TrimSpace(w))
		}
		c.eventually(time.Minute, func() error { // a completion that takes two seconds is given up
			out, err := c.run(args...)
			if err == nil && !strings.Contains("\n"+out, "\n"+want) {
				err = fmt.Errorf("%q is not in\n%s", want, out)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", words, err)
			}
			return nil
		})
	}
}
