//go:build !noplane

package host

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/microvm/agent"
)

func newHostToken() *cobra.Command {
	var kubeconfig, context string
	var e agent.Enrolment
	var server string
	c := &cobra.Command{
		Use:     "token NAME",
		Short:   "Register a host and print the file with which it joins",
		Example: "  nodeless host token rack1 > join.kubeconfig",
		Long: `Creates what a host of this name needs in the cluster of your kubeconfig: a
namespace nodeless-host-NAME with a service account, its permissions and a
MicroVMHost. Prints a kubeconfig with a token that can be used once.

To revoke the host's access: kubectl delete namespace nodeless-host-NAME`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.Host = args[0]
			return printJoin(cmd.Context(), cmd.OutOrStdout(), kubeconfig, context, e, server)
		},
	}
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: as kubectl)")
	f.StringVar(&context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&server, "server", "", "URL at which the host reaches the API server (default: that of the kubeconfig)")
	f.StringVar(&e.PodCIDR, "pod-cidr", "",
		"addresses of the host's pods, at most a /20 (default: the first of 10.202.0.0 to 10.249.255.255 that"+
			" no other host has)")
	f.DurationVar(&e.TTL, "ttl", time.Hour, "how long the token is valid if nobody uses it")
	return c
}

func printJoin(ctx context.Context, w io.Writer, kubeconfig, context string, e agent.Enrolment, server string) error {
	cfg, err := target.Connect(kubeconfig, context, 50, 100)
	if err != nil {
		return err
	}
	ca, err := target.Authorities(cfg)
	if err != nil {
		return err
	}
	token, err := agent.Enrol(ctx, cfg, e)
	if err != nil {
		return err
	}
	if server == "" {
		server = cfg.Host
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: ca,
		TLSServerName: cfg.ServerName,
	}
	c.AuthInfos["host"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["host"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "host"}
	c.CurrentContext = "host"
	text, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("print the file to join with: %w", err)
	}
	_, err = w.Write(text)
	return err
}

func newHostEnd() *cobra.Command {
	var dir string
	var now bool
	c := &cobra.Command{
		Use:   "end",
		Short: `End the microVMs that "nodeless host" left running`,
		Long: `Ends the microVMs that "nodeless host" left running on this machine; pods get
their grace period. "nodeless host" itself must not be running. The cluster is
not told: it replaces the pods of a host that is away for about a minute.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := (&localcluster.Selector{DataDir: dir}).Resolve()
			if err != nil {
				return err
			}
			ctx, cancel := program.WithGrace(cmd.Context(), now)
			defer cancel()
			n, err := endHostMicroVMs(ctx, hostDir(dir))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d microVMs ended.\n", n)
			return err
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", localcluster.DataDirUsage)
	program.NowFlag(c, &now)
	return c
}
