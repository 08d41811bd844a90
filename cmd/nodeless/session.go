package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
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

// loadSession reads the session of a process that is alive; errNotRunning if there is none.
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
	if !alive(s.PID) {
		return s, errNotRunning
	}
	return s, nil
}

// alive reports whether the process exists and is a nodeless: a process id may have been given to another program since.
func alive(pid int) bool {
	if pid <= 0 || syscall.Kill(pid, 0) != nil {
		return false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return true // no /proc here: believe the file
	}
	if len(cmdline) == 0 {
		return false // a zombie
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	self, selfErr := os.Executable()
	return err != nil || selfErr != nil || filepath.Base(trimDeleted(exe)) == filepath.Base(self)
}

// trimDeleted takes off what Linux adds to the name of a program that was replaced by a newer build.
func trimDeleted(exe string) string {
	const mark = " (deleted)"
	if len(exe) > len(mark) && exe[len(exe)-len(mark):] == mark {
		return exe[:len(exe)-len(mark)]
	}
	return exe
}
