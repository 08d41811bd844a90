package program

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environmentMark is the annotation of flags whose value comes from the environment.
const environmentMark = "nodeless/environment"

// OnCommandLine reports whether a flag was given on the command line.
func OnCommandLine(f *pflag.FlagSet, name string) bool {
	flag := f.Lookup(name)
	return flag != nil && flag.Changed && flag.Annotations[environmentMark] == nil
}

// Flags that say which cluster a command is about.
var (
	LocalFlags      = []string{"name", "data-dir"} // one of "nodeless up"
	KubeconfigFlags = []string{"kubeconfig", "context"}
	ClusterFlags    = slices.Concat(LocalFlags, KubeconfigFlags)
)

// Placed reports whether the command line names a cluster of "nodeless up".
func Placed(f *pflag.FlagSet) bool {
	return slices.ContainsFunc(LocalFlags, func(name string) bool { return OnCommandLine(f, name) })
}

// ReadEnvironment sets every flag that was not given from NODELESS_<FLAG>. If the command line names a cluster of
// "nodeless up", the environment does not name another one.
func ReadEnvironment(cmd *cobra.Command) (err error) {
	placed := Placed(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || placed && slices.Contains(ClusterFlags, f.Name) {
			return
		}
		name := "NODELESS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if e := cmd.Flags().Set(f.Name, v); e != nil {
				err = fmt.Errorf("environment variable %s=%q: %w", name, v, e)
			}
			_ = cmd.Flags().SetAnnotation(f.Name, environmentMark, []string{name}) // fails only for flags that do not exist
		}
	})
	return err
}

// BindEnvironment makes NODELESS_DATA_DIR and the like stand for flags that are not given.
func BindEnvironment(c *cobra.Command) {
	if c.DisableFlagParsing || c.RunE == nil {
		return
	}
	next := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := ReadEnvironment(cmd); err != nil {
			return err
		}
		if next != nil {
			return next(cmd, args)
		}
		return nil
	}
}
