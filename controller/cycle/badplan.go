package cycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodeless/nodeless/engine/model"
)

// mostBadPlans is how many bad plans are kept: a plan that fails once tends to fail again and again.
const mostBadPlans = 20

// badPlan is what is saved of a plan that failed its check: enough to make it again.
type badPlan struct {
	Violations []string
	Plan       model.Plan
	Policy     model.Policy
	Snapshot   *model.Snapshot
}

// save writes the plan to the folder, under a name that follows from the first thing wrong with it, and gives the
// path; the same failure is saved once.
func (b badPlan) save(dir string) (path string, news bool, err error) {
	sum := sha256.Sum256([]byte(b.Violations[0]))
	path = filepath.Join(dir, hex.EncodeToString(sum[:6])+".json")
	if _, err := os.Stat(path); err == nil {
		return path, false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	kept, err := os.ReadDir(dir)
	if err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	if len(kept) >= mostBadPlans {
		return dir + " (full: remove old ones)", false, nil
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	return path, true, nil
}
