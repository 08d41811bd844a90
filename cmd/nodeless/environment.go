package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsFromEnvironment sets every flag that was not given from NODELESS_<FLAG>.
func flagsFromEnvironment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil {
			return
		}
		name := "NODELESS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if e := cmd.Flags().Set(f.Name, v); e != nil {
				err = fmt.Errorf("environment variable %s=%q: %w", name, v, e)
			}
		}
	})
	return err
}
