package stories

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// looker is a user with a kubeconfig of their own.
type looker struct {
	*cluster
	kubeconfig string
}

// looker creates a service account, and a kubeconfig with its token.
func (c *cluster) looker(name string) *looker {
	c.t.Helper()
	c.kubectl("-n", "look", "create", "serviceaccount", name)
	token := strings.TrimSpace(c.kubectl("-n", "look", "create", "token", name))
	return c.lookerWith(name, func(user *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { user.Token = token })
}

// lookerWith returns a user with a kubeconfig like the cluster's, apart from a change.
func (c *cluster) lookerWith(name string, change func(*clientcmdapi.AuthInfo, *clientcmdapi.Cluster)) *looker {
	c.t.Helper()
	cfg, err := clientcmd.LoadFromFile(c.Session.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	at := cfg.Contexts[cfg.CurrentContext]
	user := &clientcmdapi.AuthInfo{}
	change(user, cfg.Clusters[at.Cluster])
	cfg.AuthInfos = map[string]*clientcmdapi.AuthInfo{at.AuthInfo: user}
	l := &looker{c, filepath.Join(c.home, name+".kubeconfig")}
	if err := clientcmd.WriteToFile(*cfg, l.kubeconfig); err != nil {
		c.t.Fatal(err)
	}
	return l
}

// asks runs a command with the looker's kubeconfig. A command that hangs is an error.
func (l *looker) asks(question string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary,
		append(strings.Fields(question), "--kubeconfig", l.kubeconfig, "--region", "us-west-2")...)
	cmd.Env = append(l.environment(), "NODELESS_DATA_DIR="+l.dir)
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, ctx.Err())
}

// wantAnswer checks that a question succeeds with these words in its answer, which it returns.
func (l *looker) wantAnswer(question string, words ...string) string {
	l.t.Helper()
	out, err := l.asks(question)
	for _, w := range words {
		if err != nil || !strings.Contains(out, w) {
			l.t.Errorf("%s: %v\n%s\nwant an answer with %q", question, err, out, w)
			break
		}
	}
	return out
}

// wantRefusal checks that a question fails with these words in its error.
func (l *looker) wantRefusal(question string, words ...string) {
	l.t.Helper()
	if err := l.refusal(question, words...); err != nil {
		l.t.Error(err)
	}
}

// refusal returns an error unless a question fails with these words in its error.
func (l *looker) refusal(question string, words ...string) error {
	out, err := l.asks(question)
	for _, w := range words {
		if err == nil || !strings.Contains(out, w) {
			return fmt.Errorf("%s: %v\n%s\nwant an error with %q", question, err, out, w)
		}
	}
	return nil
}

// wroteNothing checks, in the API server's audit log, that the service accounts only sent reads.
func wroteNothing(t *testing.T, audit string) {
	f, err := os.Open(audit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := 0
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
		}
		if json.Unmarshal(line, &e) == nil && strings.HasPrefix(e.User.Username, "system:serviceaccount:look:") {
			asked++
			if !slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
				t.Errorf("%s asked to %s %s", e.User.Username, e.Verb, e.RequestURI)
			}
		}
		if err != nil {
			break
		}
	}
	if asked < 50 {
		t.Errorf("the log has only %d requests of the service accounts", asked)
	}
}
