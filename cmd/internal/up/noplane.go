//go:build noplane

package up

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// newUp, newKubectl and newImage exist so that nobody has to guess why commands that the documentation names are
// missing.
func newUp() *cobra.Command {
	return program.Absent("up", "Run a whole cluster on this machine (not in this build)")
}

func newKubectl() *cobra.Command {
	return program.Absent("kubectl", "kubectl, built in (not in this build)")
}

func newImage() *cobra.Command {
	return program.Absent("image", "Container images of this machine (not in this build)")
}

// endMicroVMs has nothing to end: this build starts no microVMs.
func endMicroVMs(context.Context, string) (int, error) { return 0, nil }
