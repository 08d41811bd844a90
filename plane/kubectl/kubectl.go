// Package kubectl embeds kubectl from the Kubernetes sources, so that nothing else needs to be installed to work with
// an embedded cluster. It does not link the control plane.
package kubectl

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // clusters of the user's own kubeconfig may need it
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	_ "github.com/nodeless/nodeless/internal/kit/kubeversion" // without it kubectl's version is v0.0.0-master
)

// Run runs kubectl with args (without its name) and returns its exit code. It uses the cluster of the given
// kubeconfig file, unless the arguments name another one with --kubeconfig, --context, --cluster, --user or --server;
// then the user's own kubeconfig applies, as for any kubectl. If missing is not "", that cluster is not running:
// arguments that need a cluster fail with an error that contains missing.
//
// Run takes over the process as kubectl does: signals get their default behaviour (Ctrl-C ends the process at once,
// unless the subcommand has something to clean up), and plugins found in $PATH replace the process. Call it once,
// last.
func Run(args []string, kubeconfig, missing string, in io.Reader, out, errOut io.Writer) int {
	if !namesCluster(args) {
		if missing != "" && needsCluster(args) {
			fmt.Fprintf(errOut, "error: no cluster: %s; or name another cluster with --kubeconfig or --context\n", missing)
			return 1
		}
		// Set the variable, not the flag's default: `kubectl config` and plugins read it, too.
		previous, had := os.LookupEnv(clientcmd.RecommendedConfigPathEnvVar)
		_ = os.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig) // fails only for invalid names
		defer restore(previous, had)
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	return execute(args, genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut})
}

func restore(previous string, had bool) {
	if had {
		_ = os.Setenv(clientcmd.RecommendedConfigPathEnvVar, previous)
		return
	}
	_ = os.Unsetenv(clientcmd.RecommendedConfigPathEnvVar)
}

// execute runs the command in a separate goroutine, which kubectl's fatal errors can end at any depth.
func execute(args []string, streams genericiooptions.IOStreams) int {
	exit := make(chan int, 1)
	end := func(code int) {
		select {
		case exit <- code:
		default:
		}
	}
	cmdutil.BehaviorOnFatal(func(msg string, code int) {
		if msg != "" {
			fmt.Fprintln(streams.ErrOut, strings.TrimSuffix(msg, "\n"))
		}
		end(code)
		runtime.Goexit()
	})
	defer cmdutil.DefaultBehaviorOnFatal()
	go func() {
		defer logs.FlushLogs()
		argv := append([]string{"kubectl"}, args...)
		logs.GlogSetter(cmd.GetLogVerbosity(argv)) //nolint:errcheck // the flag is parsed again, with its error
		c := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
			PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
			Arguments:     argv,
			ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
				WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams),
			IOStreams: streams,
		})
		c.SetArgs(args)
		c.SetIn(streams.In)
		c.SetOut(streams.Out)
		c.SetErr(streams.ErrOut)
		cmdutil.CheckErr(cli.RunNoErrOutput(c))
		end(0)
	}()
	return <-exit
}

// clusterFlags select a cluster other than ours.
var clusterFlags = []string{"--kubeconfig", "--context", "--cluster", "--user", "--server", "-s"}

// namesCluster reports whether the user named a cluster. Arguments after "--" belong to a command in a container.
func namesCluster(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		flag, _, _ := strings.Cut(a, "=")
		if slices.Contains(clusterFlags, flag) && !ownFlag(args, strings.TrimLeft(flag, "-")) {
			return true
		}
	}
	return false
}

// ownFlag reports whether a flag is the subcommand's own: the --user of `create rolebinding` is who gets the role.
func ownFlag(args []string, name string) bool {
	c, _, err := cmd.NewKubectlCommand(cmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(),
		IOStreams:   genericiooptions.NewTestIOStreamsDiscard(),
	}).Find(args)
	return err == nil && c.HasParent() && c.LocalNonPersistentFlags().Lookup(name) != nil
}

// needsCluster reports whether the arguments need an API server.
func needsCluster(args []string) bool {
	for _, a := range args {
		switch a {
		case "--help", "-h", "--client", "--client=true":
			return false
		}
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			continue
		}
		return !slices.Contains([]string{
			"help", "completion", "__complete", "__completeNoDesc", "config", "options",
			"plugin", "kustomize", "kuberc",
		}, a)
	}
	return false // bare kubectl shows its help
}
