// Package httpguard protects this program's HTTP listeners from callers that should not be there: tokens, the
// rejection of requests that another web site makes a browser send, and deadlines for whatever a client sends.
package httpguard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// tokenBytes is the number of random bytes in a token.
const tokenBytes = 32

// NewToken returns a secret of 256 random bits, in characters that need no escaping in a URL, a cookie or a shell.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b)
}

// KeepToken returns the token in a file that only its owner may read. It creates a missing file, so that a token
// survives a restart, and replaces a file with other content.
func KeepToken(path string) (string, error) {
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read token: %w", err)
	}
	if token := strings.TrimSpace(string(kept)); valid(token) {
		return token, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	token, tmp := NewToken(), path+".tmp"
	if err := os.WriteFile(tmp, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	return token, os.Rename(tmp, path)
}

func valid(token string) bool {
	b, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(b) == tokenBytes
}

// Bearer returns the token of a request's Authorization header; "" if it has none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Same reports whether a caller's token is the right one. The time it takes reveals nothing about the right one. An
// empty want matches no token.
func Same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(g[:], w[:]) == 1
}

// ForeignSite reports whether the browser says that a page of another site, or of another port of this machine,
// caused the request (Fetch Metadata, Sec-Fetch-Site). Programs and old browsers do not say.
func ForeignSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}
