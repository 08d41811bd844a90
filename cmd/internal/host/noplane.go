//go:build noplane

package host

import (
	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

func newHost() *cobra.Command {
	return program.Absent("host", "Make this machine a host of microVMs (not in this build)")
}
