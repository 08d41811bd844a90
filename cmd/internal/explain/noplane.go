//go:build noplane

package explain

import (
	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

func newPlan() *cobra.Command {
	return program.Absent("plan", "What a change would do (not in this build)")
}
