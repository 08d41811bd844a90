// Package kubectl is the kubectl of Kubernetes' own source, built in, so that nothing else needs to be installed to
// work with an embedded cluster. It does not link the control plane.
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
	_ "k8s.io/client-go/plugin/pkg/client/auth" // clusters of the user's own kubeconfig may want it
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	_ "github.com/nodeless/nodeless/internal/kit/kubeversion" // without it kubectl's version is v0.0.0-master
)

// Run runs kubectl with its arguments (without its name) and returns its exit code. It talks to the cluster of the
// given kubeconfig file unless the arguments name another one by --kubeconfig, --context, --cluster, --user or
// --server; then the user's own kubeconfig counts as it does for any kubectl. If missing is not "", that cluster does
// not run: arguments that need one end with an error that says missing.
//
// Run takes over the process as kubectl does: signals get their default meaning (Ctrl-C ends it at once, unless the
// subcommand has something to clean up), and plugins found in $PATH replace the process. Call it once, last.
func Run(args []string, kubeconfig, missing string, in io.Reader, out, errOut io.Writer) int {
	if !namesCluster(args) {
		if missing != "" && needsCluster(args) {
			fmt.Fprintf(errOut, "error: no cluster: %s; or name another cluster with --kubeconfig or --context\n", missing)
			return 1
		}
		// The variable and not the flag's default: `kubectl config` and plugins heed it too.
		previous, had := os.LookupEnv(clientcmd.RecommendedConfigPathEnvVar)
		_ = os.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig) // fails only for names that are none
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

// execute runs the command in a goroutine of its own, which kubectl's fatal errors end from any depth.
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

// namesCluster reports whether the user chose a cluster. Arguments after "--" belong to a command in a container.
func namesCluster(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		flag, _, _ := strings.Cut(a, "=")
		if slices.Contains(clusterFlags, flag) {
			return true
		}
	}
	return false
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
