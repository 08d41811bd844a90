package host

import (
	"context"
	"fmt"
	"os"

	"github.com/nodeless/nodeless/microvm/sandbox"
)

// Sweep ends the microVMs of a state directory that no process has charge of, and gives back the memory of their templates and their bridge. Their pods
// have their grace before, until ctx is done. What the next process needs to begin the pods anew stays in the directory. It returns how many microVMs ran.
func Sweep(ctx context.Context, dir string) (ended int, err error) {
	if ended, err = sandbox.Sweep(ctx, dir); err != nil {
		return ended, err
	}
	if err := reapUnfinished(dir); err != nil {
		return ended, err
	}
	if t := templateDir(dir); t != "" {
		if err := os.RemoveAll(t); err != nil {
			return ended, fmt.Errorf("remove the templates of microVMs: %w", err)
		}
	}
	if os.Geteuid() == 0 {
		err = sandbox.DeleteBridge(bridgeName(dir))
	}
	return ended, err
}
