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
	Context    string        `json:"context,omitempty"`        // in the user's kubeconfig; "" if it is not there
	NoContext  string        `json:"contextProblem,omitempty"` // why it is not there, although it should be
	Page       string        `json:"page,omitempty"`           // the link that opens it, with its token
	// Secrets of this cluster, which callers send as Authorization: Bearer. They are why nobody else may read the file.
	PageToken   string `json:"pageToken,omitempty"`
	RegionToken string `json:"regionToken"` // for the region's calls below /_nodeless/
}

// ErrNotRunning means that no cluster runs from a data directory.
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

// LoadSession reads the session of the process that uses the data directory; ErrNotRunning if none does.
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
	// The session may be that of a process that was killed, while another one starts.
	if pid, used := datadir.User(dir); !used || pid != 0 && pid != s.PID {
		return s, ErrNotRunning
	}
	return s, nil
}

// TypesFile returns the file with the custom instance types that a cluster of `nodeless up` was created with.
func TypesFile(dir string) string { return filepath.Join(dir, "region", "types.json") }

// Scheduler returns the configuration of kube-scheduler in a cluster of `nodeless up`, from the file that its control
// plane keeps.
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

// EKSName is the cluster's name in the simulated region: in tags, user data and EKS.
const EKSName = "nodeless"

// TokenFile returns the file with the token of a listener, which keeps links valid across restarts.
func TokenFile(dir, listener string) string { return filepath.Join(dir, "tokens", listener) }

// RegionFile returns the file with the name of a cluster's region, where its instances are.
func RegionFile(dir string) string { return filepath.Join(dir, "region", "name") }

// AutoModeFile returns the file with the built-in NodePools of EKS Auto Mode that a cluster has; other clusters have
// no such file.
func AutoModeFile(dir string) string { return filepath.Join(dir, "region", "auto-mode") }

// EngineUsage is the usage of the flag --engine.
const EngineUsage = "how pods of FargateProfiles run: auto (KVM if a guest boots with it, else TCG), kvm, tcg, or " +
	"namespace: no virtual machines and NO security boundary, for machines that cannot have any, and for profiles " +
	"that ask for it"

// MicroVMDir returns where this machine keeps its microVMs, below the data directory.
func MicroVMDir(dataDir string) string { return filepath.Join(dataDir, "microvms") }

// ImageDir returns where images are looked up first, and where they are built.
func ImageDir(dataDir string) string { return filepath.Join(dataDir, "images") }
