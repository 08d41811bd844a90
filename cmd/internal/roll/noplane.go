//go:build noplane

package roll

import (
	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// New returns a placeholder for a command that the controller's own build does not have.
func New() *cobra.Command {
	return program.Absent("roll", "Replace the nodes of NodePools or groups by new ones (not in this build)")
}
