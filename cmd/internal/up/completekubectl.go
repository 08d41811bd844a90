//go:build !noplane

package up

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/plane/kubectl"
)

// completeKubectl asks kubectl, which implements completion itself.
func completeKubectl(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, args, missing, err := kubectlTarget(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out bytes.Buffer
	ask := append(append([]string{cobra.ShellCompRequestCmd}, args...), word)
	if kubectl.Run(ask, config, missing, strings.NewReader(""), &out, io.Discard) != 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last, ok := strings.CutPrefix(lines[len(lines)-1], ":")
	directive, err := strconv.Atoi(last)
	if !ok || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
