package program

import (
	"errors"

	"github.com/spf13/cobra"
)

// errNoPlane is the error of the embedded control plane's commands in a build without it.
var errNoPlane = errors.New("this build has no control plane and no microVMs in it, only the controller and what " +
	"asks it (build tag noplane); the whole program is for Linux: \"make build\" makes it there")

// Absent returns a placeholder for a command that this build does not have.
func Absent(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error { return errNoPlane },
	}
}
