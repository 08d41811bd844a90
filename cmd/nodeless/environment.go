package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environmentMark is the annotation of flags whose value is from the environment.
const environmentMark = "nodeless/environment"

// onCommandLine reports whether a flag was given on the command line.
func onCommandLine(f *pflag.FlagSet, name string) bool {
	flag := f.Lookup(name)
	return flag != nil && flag.Changed && flag.Annotations[environmentMark] == nil
}

// flagsFromEnvironment sets every flag that was not given from NODELESS_<FLAG>. A cluster that the command line
// names, by its name or its data directory, is not looked for in the environment.
func flagsFromEnvironment(cmd *cobra.Command) (err error) {
	placed := onCommandLine(cmd.Flags(), "name") || onCommandLine(cmd.Flags(), "data-dir")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || placed && (f.Name == "name" || f.Name == "data-dir") {
			return
		}
		name := "NODELESS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if e := cmd.Flags().Set(f.Name, v); e != nil {
				err = fmt.Errorf("environment variable %s=%q: %w", name, v, e)
			}
			_ = cmd.Flags().SetAnnotation(f.Name, environmentMark, []string{name}) // it fails for flags that are not there
		}
	})
	return err
}
