package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// kubeconfig returns a kubeconfig of a server, for a user with a token.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"clusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"users: [{name: a, user: {token: t}}]\n", server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// diagnose runs the command against a server.
func diagnose(ctx context.Context, t *testing.T, server string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := New()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(&out)
	c.SetArgs(append(args, "--kubeconfig", kubeconfig(t, server)))
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

// answer answers the version and access reviews, and knows nothing else.
func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}`)
	case r.URL.Path == "/api":
		fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
	case r.URL.Path == "/apis":
		fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "authorization.k8s.io",`+
			`"versions": [{"groupVersion": "authorization.k8s.io/v1", "version": "v1"}]}]}`)
	case r.URL.Path == "/apis/authorization.k8s.io/v1":
		fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "authorization.k8s.io/v1", "resources": [`+
			`{"name": "selfsubjectaccessreviews", "kind": "SelfSubjectAccessReview", "verbs": ["create"]}]}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",`+
			`"status": {"allowed": true}}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}
}

// With --as only permissions are asked about as that user. What is read, the caller reads.
func TestOnlyAccessReviewsAreAskedAsSomebodyElse(t *testing.T) {
	const controller = "system:serviceaccount:kube-system:nodeless"
	var mu sync.Mutex
	reviews, reads := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		review, want := strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"), ""
		if review {
			reviews++
			want = controller
		} else {
			reads++
		}
		if got := r.Header.Get("Impersonate-User"); got != want {
			t.Errorf("%s %s as %q, want %q", r.Method, r.URL.Path, got, want)
		}
		answer(w, r)
	}))
	defer server.Close()
	out, _ := diagnose(t.Context(), t, server.URL, "--as", controller) // the definitions are missing
	if reviews == 0 || reads == 0 || !strings.Contains(out, "ok       permissions") {
		t.Errorf("%d reviews, %d reads\n%s", reviews, reads, out)
	}
}

// Ctrl-C during the checks is no finding.
func TestAnInterruptIsNoFinding(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			cancel()
		}
		answer(w, r)
	}))
	defer server.Close()
	if out, err := diagnose(ctx, t, server.URL); !errors.Is(err, context.Canceled) || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A cluster that does not answer, or not to us, is named, with what to do.
func TestAClusterThatCannotBeAskedHasARemedy(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	expired := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`)
	}))
	defer expired.Close()
	for server, want := range map[string]string{gone.URL: "does it run", expired.URL: "log in again"} {
		if _, err := diagnose(t.Context(), t, server); err == nil || !strings.Contains(err.Error(), server) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s: %s", err, server, want)
		}
	}
}
