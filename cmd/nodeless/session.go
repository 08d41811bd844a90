package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// session is what a running `nodeless up` leaves in its data directory for down and status.
type session struct {
	PID        int           `json:"pid"`
	Name       string        `json:"name"` // of the cluster
	Started    time.Time     `json:"started"`
	Version    string        `json:"version"`
	Kubeconfig string        `json:"kubeconfig"`
	APIServer  string        `json:"apiServer"`
	Region     string        `json:"region"`
	RegionURL  string        `json:"regionEndpoint"`
	BootTime   time.Duration `json:"bootTimeNanoseconds"`
	Context    string        `json:"context,omitempty"`        // of the user's kubeconfig; "" if it is not there
	NoContext  string        `json:"contextProblem,omitempty"` // why it is not, although it should be
	Page       string        `json:"page,omitempty"`           // the link that opens it, with its token
	// Secrets of this cluster, which is why nobody else may read the file: callers send them as Authorization: Bearer.
	PageToken   string `json:"pageToken,omitempty"`
	RegionToken string `json:"regionToken"` // of the region's calls below /_nodeless/
}

var errNotRunning = errors.New("not running")

func sessionFile(dir string) string { return filepath.Join(dir, "session.json") }

// save writes the session so that a reader sees all of it or nothing.
func (s session) save(dir string) error {
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := sessionFile(dir) + ".tmp"
	if err := os.WriteFile(tmp, append(out, '\n'), 0o600); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return os.Rename(tmp, sessionFile(dir))
}

// loadSession reads the session of the process that uses the data directory; errNotRunning if none does.
func loadSession(dir string) (session, error) {
	var s session
	data, err := os.ReadFile(sessionFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, errNotRunning
	}
	if err != nil {
		return s, fmt.Errorf("read session: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("session file %s is damaged (%w); if nothing runs, delete it", sessionFile(dir), err)
	}
	// of a process that was killed, while another one starts
	if pid, used := datadir.User(dir); !used || pid != 0 && pid != s.PID {
		return s, errNotRunning
	}
	return s, nil
}
