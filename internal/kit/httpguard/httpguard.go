// Package httpguard holds what this program's HTTP listeners share against callers that should not be there: tokens,
// the refusal of requests that another web site makes a browser send, and a deadline for request bodies.
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
	"time"
)

// tokenBytes is how much chance a token holds.
const tokenBytes = 32

// NewToken is a secret of 256 random bits, in characters that need no escape in a URL, a cookie or a shell.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b)
}

// KeepToken is the token in a file that only its owner may read. It makes the file if there is none, so that a token
// outlives a restart, and replaces a file that holds something else.
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

// Bearer is the token of a request's Authorization header; "" if it has none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Same reports whether a caller's token is the right one. How long it takes tells nothing about the right one; nobody
// has "".
func Same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(g[:], w[:]) == 1
}

// ForeignSite reports whether a browser says that a page of another site, or of another port of this machine, makes
// it send the request (Fetch Metadata, Sec-Fetch-Site). Programs and old browsers say nothing.
func ForeignSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// ReadWithin bounds how long a request's body may take to arrive. A handler that works on after it has read the body
// calls BodyRead.
func ReadWithin(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)) // a recorder of tests has none
		}
		next.ServeHTTP(w, r)
	})
}

// BodyRead takes back the deadline of ReadWithin: a passed one would end the request's context.
func BodyRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}
