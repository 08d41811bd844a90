package arch

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A server without deadlines is occupied by clients that send nothing. httpguard.NewServer sets them, and its test
// plays such clients.
func TestEveryHTTPServerHasDeadlines(t *testing.T) {
	makes := regexp.MustCompile(`\bhttp\.(Server\{|(ListenAnd)?Serve(TLS)?\()|\bnew\(http\.Server\)`)
	for _, p := range packages(t) {
		if under(p.rel(), "internal/kit/httpguard", "lab") {
			continue
		}
		for _, name := range p.GoFiles {
			for i, line := range strings.Split(read(t, filepath.Join(p.rel(), name)), "\n") {
				if makes.MatchString(line) {
					t.Errorf("%s/%s:%d makes an HTTP server: use httpguard.NewServer, or its clients have no deadline",
						p.rel(), name, i+1)
				}
			}
		}
	}
}
