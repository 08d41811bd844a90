//go:build !noplane

package host

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// tokenOf returns a token of a host, valid for an hour from its issue.
func tokenOf(host string, issued time.Time) string {
	body := fmt.Sprintf(`{"sub":"system:serviceaccount:nodeless-host-%s:host","iat":%d,"exp":%d}`, host, issued.Unix(),
		issued.Add(time.Hour).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(body)) + ".c2ln"
}

// tokenServer is an API server with which every host can join: it gives each a token that was issued just now.
func tokenServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reply any = map[string]string{"kind": "Status", "apiVersion": "v1", "status": "Success"}
		if path, ok := strings.CutSuffix(r.URL.Path, "/serviceaccounts/host/token"); ok {
			_, host, _ := strings.Cut(path, "/nodeless-host-")
			var request authenticationv1.TokenRequest
			request.Kind, request.APIVersion = "TokenRequest", authenticationv1.SchemeGroupVersion.String()
			request.Status.Token = tokenOf(host, time.Now())
			reply = request
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	}))
	t.Cleanup(s.Close)
	return s
}

func writeKubeconfig(t *testing.T, path string, s *httptest.Server, token string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config := fmt.Sprintf(`{"kind": "Config", "apiVersion": "v1", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"users": [{"name": "c", "user": {%s}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`,
		s.URL, base64.StdEncoding.EncodeToString(ca), token)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A machine that is a host joins again with a file that was made for that, but not with the one that it has joined
// with, which its command line may still name.
func TestAHostJoinsAgainWhenItsFileIsNewer(t *testing.T) {
	now := time.Now()
	server, another := tokenServer(t), tokenServer(t)
	for name, c := range map[string]struct {
		server *httptest.Server
		host   string
		issued time.Time
		joins  bool
	}{
		"the file that it has joined with": {server, "old", now.Add(-11 * time.Minute), false},
		"a newer one":                      {server, "old", now.Add(-time.Minute), true},
		"another host's":                   {server, "new", now.Add(-11 * time.Minute), true},
		"another cluster's":                {another, "old", now.Add(-11 * time.Minute), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := &hostOptions{stateDir: filepath.Join(dir, "host"), join: filepath.Join(dir, "join")}
			if err := os.Mkdir(o.stateDir, 0o700); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(o.stateDir, "token")
			own := tokenOf("old", now.Add(-10*time.Minute))
			if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}
			writeKubeconfig(t, filepath.Join(o.stateDir, "kubeconfig"), server, fmt.Sprintf(`"tokenFile": %q`, file))
			writeKubeconfig(t, o.join, c.server, fmt.Sprintf(`"token": %q`, tokenOf(c.host, c.issued)))
			id, err := o.identity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if joined := id.REST.BearerToken != own; joined != c.joins || id.Host != c.host || id.REST.Host != c.server.URL {
				t.Errorf("it joined: %t, host %s of %s", joined, id.Host, id.REST.Host)
			}
		})
	}
}

// The file to join with is of no use any more after the machine has joined.
func TestAHostNeedsNoFileToJoinWithTwice(t *testing.T) {
	server := tokenServer(t)
	dir := t.TempDir()
	o := &hostOptions{stateDir: filepath.Join(dir, "host"), join: filepath.Join(dir, "join")}
	writeKubeconfig(t, o.join, server, fmt.Sprintf(`"token": %q`, tokenOf("h1", time.Now().Add(-time.Minute))))
	first, err := o.identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.join); err != nil {
		t.Fatal(err)
	}
	again, err := o.identity(t.Context())
	if err != nil || again.Host != first.Host || again.REST.BearerToken != first.REST.BearerToken {
		t.Errorf("got %+v, %v, want %+v", again, err, first)
	}
	o.stateDir = t.TempDir()
	if id, err := o.identity(t.Context()); err == nil {
		t.Errorf("a machine that is no host has the identity %+v", id)
	}
}
