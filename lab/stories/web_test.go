package stories

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needBrowser skips the test if there is no browser, or fails it if one is required.
func needBrowser(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("chromium")
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "view", "web", "page", "node_modules", "playwright-core"))
	}
	switch {
	case err == nil:
	case os.Getenv("NODELESS_REQUIRE_BROWSER") != "":
		t.Fatalf("%v: scripts/test-deps installs it", err)
	default:
		t.Skip(err)
	}
}

// fetch gets a URL with the page's token.
func (c *cluster) fetch(url string) (int, http.Header, string, error) {
	resp, err := c.ask(context.Background(), url)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

func (c *cluster) ask(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Session.PageToken)
	return http.DefaultClient.Do(req)
}

// A user opens the page that up names: it follows the cluster, says why a pod waits, and works without JavaScript.
func TestThePageShowsTheCluster(t *testing.T) {
	c := up(t, "--boot-time", "1s", "--page", "127.0.0.1:0", "--addons") // the VPC CNI is an add-on
	c.apply(wants)
	c.wantPods(2*time.Minute, "default", "web", 12)
	link := c.Session.Page
	page, _, named := strings.Cut(link, "?token=")
	if out, err := c.run("status"); err != nil || !named || !strings.HasPrefix(page, "http://127.0.0.1:") ||
		!strings.Contains(out, link) || !strings.Contains(c.log(), link) {
		t.Fatalf("%v: the page's link is %q, and not what up and status print:\n%s\n%s", err, link, out, c.log())
	}
	if _, _, text, err := c.fetch(page + "lite"); err != nil || !strings.Contains(text, "general-purpose") ||
		strings.Contains(text, "<p>0 nodes") || strings.Contains(text, "\n0 pods running") {
		t.Errorf("%v: the first visitor is not shown the whole cluster:\n%s", err, text)
	}
	code, header, _, err := c.fetch(page)
	if err != nil || code != http.StatusOK ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%d %v: %v", code, err, header)
	}
	c.eventually(time.Minute, func() error {
		_, _, text, err := c.fetch(page + "lite")
		if err != nil || !strings.Contains(text, "default/huge") || !strings.Contains(text, "general-purpose") ||
			strings.Contains(text, "\n0 pods running") {
			return fmt.Errorf("%w: not all is on the page without script:\n%s", err, text)
		}
		return nil
	})
	if first, err := c.firstEvent(page + "api/stream"); err != nil || !strings.HasPrefix(first, "event: state") {
		t.Errorf("%v: the stream begins with %q", err, first)
	}
	code, _, text, err := c.fetch(page + "api/why?of=pod/huge&namespace=default")
	if err != nil || code != http.StatusOK || !strings.Contains(text, `"verdict":"Unschedulable"`) {
		t.Errorf("%v %d: why is answered with %s", err, code, text)
	}
	code, text, err = c.whatIf(page, `{"scales": ["deployment/web=2000000000"]}`)
	if err != nil || code != http.StatusUnprocessableEntity || !strings.Contains(text, "a forecast adds at most 10000") {
		t.Errorf("%v %d: a question without bounds is answered with %s", err, code, text)
	}
	asEvil, err := http.NewRequest(http.MethodGet, page+"api/history", nil)
	if err != nil {
		t.Fatal(err)
	}
	asEvil.Host = "evil.example"
	if resp, err := http.DefaultClient.Do(asEvil); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("%v: asked by another name it answers %v", err, resp)
	} else {
		_ = resp.Body.Close()
	}
	c.wantNothingForGuests()
	c.wantNoGhosts(page)
	c.wantALogin()
	needBrowser(t)
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		pictures = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, "node", "test/cluster.mjs", link, pictures)
	script.Dir = filepath.Join(root, "view", "web", "page")
	if said, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// whatIf asks the page a what-if question.
func (c *cluster) whatIf(page, question string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, page+"api/whatif", strings.NewReader(question))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+c.Session.PageToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// wantNoGhosts deletes a pending pod and creates it again: the page drops it, and then shows it once.
func (c *cluster) wantNoGhosts(page string) {
	c.t.Helper()
	shown := func(times int) func() error {
		return func() error {
			_, _, text, err := c.fetch(page + "lite")
			if got := strings.Count(text, "default/huge"); err != nil || got != times {
				return fmt.Errorf("%w: the page without script names default/huge %d times, want %d:\n%s", err, got, times, text)
			}
			return nil
		}
	}
	c.eventually(time.Minute, shown(1))
	c.kubectl("delete", "pod", "huge", "--now")
	c.eventually(time.Minute, shown(0))
	c.apply(wants)
	c.eventually(time.Minute, shown(1))
}

// firstEvent returns the first line of a stream.
func (c *cluster) firstEvent(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := c.ask(ctx, url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return bufio.NewReader(resp.Body).ReadString('\n')
}

// web serves the cluster's page until the test ends, and returns the link that it prints.
func (c *cluster) web(listen string) string {
	c.t.Helper()
	cmd := exec.Command(binary, "web", "--listen", listen)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if _, link, ok := strings.Cut(lines.Text(), " is shown at "); ok {
			return link
		}
	}
	c.t.Fatalf("it names no address:\n%s", said.String())
	return ""
}

// wantALogin serves the page on all interfaces: it requires a token, and shows what the token's owner may list.
func (c *cluster) wantALogin() {
	c.t.Helper()
	if text, err := c.run("kubectl", "create", "serviceaccount", "looker"); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	token := strings.TrimSpace(c.kubectl("create", "token", "looker"))
	_, port, _ := strings.Cut(strings.TrimPrefix(c.web("0.0.0.0:0"), "https://"), ":")
	at := "https://127.0.0.1:" + strings.TrimSuffix(port, "/") + "/lite"
	// the certificate is self-signed
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(token string) (int, string) {
		req, _ := http.NewRequest(http.MethodGet, at, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			c.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if status, text := ask(""); status != http.StatusUnauthorized || strings.Contains(text, "default/huge") {
		c.t.Errorf("without a token: %d\n%s", status, text)
	}
	if status, text := ask(token); status != http.StatusForbidden ||
		!strings.Contains(text, "may list neither nodes nor pods") {
		c.t.Errorf("without rights: %d\n%s", status, text)
	}
	printed, err := c.run("rbac", "--view", "--service-account", "default/looker")
	if err != nil {
		c.t.Fatal(err)
	}
	if text, err := c.runIn(printed, "kubectl", "apply", "-f", "-"); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	// The API server learns of it a moment later; the page has nothing cached for a new token.
	c.eventually(time.Minute, func() error {
		status, text := ask(strings.TrimSpace(c.kubectl("create", "token", "looker")))
		if status != http.StatusOK || !strings.Contains(text, "default/huge") {
			return fmt.Errorf("with all rights: %d\n%s", status, text)
		}
		return nil
	})
}

// A user who would expose the page of a cluster on this machine to the world is told what that means and what to do;
// so is a user who gives only half of a certificate.
func TestThePageIsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"up", "--data-dir", t.TempDir(), "--page", "0.0.0.0:0", "--merge-kubeconfig=false"}, "ssh -L"},
		{[]string{"web", "--listen", "0.0.0.0", "--kubeconfig", kubeconfigOfNobody(t)}, "give it as 127.0.0.1:8080"},
		{[]string{"web", "--listen", "0.0.0.0:0", "--kubeconfig", kubeconfigOfNobody(t)}, "does not answer"},
	} {
		cmd := exec.Command(binary, c.args...)
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("nodeless %s: %v\n%s", c.args[0], err, out)
		}
	}
}

// kubeconfigOfNobody returns a kubeconfig of a cluster that does not exist.
func kubeconfigOfNobody(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
"clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "x", "user": {}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
