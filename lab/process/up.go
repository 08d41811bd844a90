package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Session is the information that `nodeless up` writes to its data directory.
type Session struct {
	Kubeconfig  string `json:"kubeconfig"`
	Region      string `json:"region"`
	RegionURL   string `json:"regionEndpoint"`
	RegionToken string `json:"regionToken"` // for the region's API below /_nodeless/
}

// Up starts `nodeless up` with a data directory and a log in dir, and waits until it is ready. The caller must stop
// the process even after an error, unless it is nil.
func Up(ctx context.Context, dir, nodeless string, flags ...string) (*Process, Session, error) {
	var s Session
	data := filepath.Join(dir, "data")
	args := append([]string{nodeless, "up", "--merge-kubeconfig=false", "--data-dir", data}, flags...)
	p, err := Start(dir, "up", []string{"NO_COLOR=1"}, args...)
	if err != nil {
		return nil, s, err
	}
	err = Await(ctx, "the control plane", p, func(context.Context) error {
		raw, err := os.ReadFile(filepath.Join(data, "session.json"))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("session of nodeless up: %w", err)
		}
		return nil
	})
	return p, s, err
}
