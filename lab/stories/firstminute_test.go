package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A new user opens the page of an empty cluster, deploys with the command that it offers, sees pods wait and why,
// sees their node arrive, scales down, and sees what was decided and saved.
func TestTheFirstMinuteOnThePage(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	c := up(t, "--boot-time", "120s", "--page", "127.0.0.1:0")
	programs := t.TempDir()
	kubectl := fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", absolute(t, binary))
	if err := os.WriteFile(filepath.Join(programs, "kubectl"), []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		pictures = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, "node", "test/firstminute.mjs", c.Session.Page, pictures)
	script.Dir = filepath.Join(root, "view", "web", "page")
	script.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir, "PATH="+programs+":"+os.Getenv("PATH"))
	said, err := script.CombinedOutput()
	if err != nil {
		t.Errorf("%v: the page is not as a newcomer needs it", err)
	}
	t.Logf("%s", said)
}
