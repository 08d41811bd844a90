package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// Session is what a running `nodeless up` leaves in its data directory for down and status.
type Session struct {
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

// ErrNotRunning says that no cluster runs from a data directory.
var ErrNotRunning = errors.New("not running")

// SessionFile returns the path of a data directory's session.
func SessionFile(dir string) string { return filepath.Join(dir, "session.json") }

// Save writes the session so that a reader sees all of it or nothing.
func (s Session) Save(dir string) error {
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := SessionFile(dir) + ".tmp"
	if err := os.WriteFile(tmp, append(out, '\n'), 0o600); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return os.Rename(tmp, SessionFile(dir))
}

// LoadSession reads the session of the process that uses the data directory; errNotRunning if none does.
func LoadSession(dir string) (Session, error) {
	var s Session
	data, err := os.ReadFile(SessionFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNotRunning
	}
	if err != nil {
		return s, fmt.Errorf("read session: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("session file %s is damaged (%w); if nothing runs, delete it", SessionFile(dir), err)
	}
	// of a process that was killed, while another one starts
	if pid, used := datadir.User(dir); !used || pid != 0 && pid != s.PID {
		return s, ErrNotRunning
	}
	return s, nil
}

// TypesFile keeps the types of one's own that a cluster of `nodeless up` was made with.
func TypesFile(dir string) string { return filepath.Join(dir, "region", "types.json") }

// Scheduler returns the configuration of kube-scheduler in a cluster of `nodeless up`, of which its control plane keeps
// the file.
func Scheduler(dir string) (translate.SchedulerConfig, error) {
	file := filepath.Join(dir, "pki", "kube-scheduler.yaml")
	document, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return translate.SchedulerConfig{}, nil
	}
	if err != nil {
		return translate.SchedulerConfig{}, fmt.Errorf("configuration of kube-scheduler: %w", err)
	}
	config, err := translate.ParseSchedulerConfig(document)
	if err != nil {
		return config, fmt.Errorf("%s: %w", file, err)
	}
	return config, nil
}

// EKSName is what the simulated region calls its cluster: in tags, user data and EKS.
const EKSName = "nodeless"

// TokenFile keeps the token of a listener, so that links stay good over restarts.
func TokenFile(dir, listener string) string { return filepath.Join(dir, "tokens", listener) }

// RegionFile remembers in which region a cluster lives: its machines are there.
func RegionFile(dir string) string { return filepath.Join(dir, "region", "name") }

// AutoModeFile remembers which built-in NodePools of EKS Auto Mode a cluster has; there is none for other clusters.
func AutoModeFile(dir string) string { return filepath.Join(dir, "region", "auto-mode") }

// EngineUsage is of the flag --engine.
const EngineUsage = "how pods of FargateProfiles run: auto (KVM if a guest boots with it, else TCG), kvm, tcg, or " +
	"namespace: no virtual machines and NO security boundary, for machines that cannot have any, and for profiles " +
	"that ask for it"

// MicroVMDir is where this machine keeps its microVMs, below the data directory.
func MicroVMDir(dataDir string) string { return filepath.Join(dataDir, "microvms") }

// ImageDir is where images are looked for first, and built to.
func ImageDir(dataDir string) string { return filepath.Join(dataDir, "images") }
