//go:build noplane

package migrate

import (
	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// New returns a placeholder for a command that the controller's own build does not have.
func New() *cobra.Command {
	return program.Absent("migrate", "Turn node groups and Karpenter's old APIs into NodePools (not in this build)")
}
