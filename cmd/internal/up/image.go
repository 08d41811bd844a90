//go:build !noplane

package up

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/microvm/image/build"
)

func newImage() *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Work with container images on this machine, without a registry",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newImageBuild())
	return c
}

type imageOptions struct {
	build.Options
	localcluster.Selector
	output string
	expose []string
}

func newImageBuild() *cobra.Command {
	var o imageOptions
	c := &cobra.Command{
		Use:   "build DIR --tag NAME [flags] [-- COMMAND...]",
		Short: "Make a container image from a directory",
		Long: `Makes an OCI image whose root is the directory, and puts it into the data
directory, where "nodeless up" looks first for the images of microVMs. It needs
no daemon, no registry and no privileges. Files in the image belong to root; the
same directory gives the same image.`,
		Example: `  mkdir -p root/bin && cp /bin/busybox root/bin/ && root/bin/busybox --install root/bin
  nodeless image build root --tag example.local/busybox:1 -- sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n == 1 || n < 0 && len(args) == 1 {
				return nil
			}
			return errors.New(`give one directory, and the image's command behind "--": ` +
				`nodeless image build DIR --tag NAME -- COMMAND`)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir, o.Config.Cmd = args[0], args[1:]
			return o.run(cmd)
		},
	}
	f := c.Flags()
	o.Add(f)
	f.StringVarP(&o.Tag, "tag", "t", "", "the image's name, such as example.local/busybox:1")
	f.StringVarP(&o.output, "output", "o", "", "OCI layout to write to (default: images/local in the data directory)")
	f.StringArrayVar(&o.Config.Entrypoint, "entrypoint", nil, "a word of the entrypoint; give it once per word")
	f.StringArrayVarP(&o.Config.Env, "env", "e", nil, "NAME=value; may be repeated")
	f.StringVarP(&o.Config.User, "user", "u", "", "name or number, also user:group")
	f.StringVarP(&o.Config.WorkingDir, "workdir", "w", "", "where the command starts")
	f.StringVar(&o.Config.StopSignal, "stop-signal", "",
		"the signal that ends the program, such as SIGQUIT (default: SIGTERM)")
	f.StringArrayVar(&o.expose, "expose", nil, "port[/protocol] on which the program listens; may be repeated")
	f.StringVar(&o.Architecture, "arch", "", "amd64, arm64 … (default: this machine's)")
	return c
}

func (o *imageOptions) run(cmd *cobra.Command) error {
	if o.Tag == "" {
		return errors.New("--tag is missing: the image's name, such as --tag example.local/busybox:1")
	}
	if info, err := os.Stat(o.Dir); err != nil {
		return fmt.Errorf("build an image: %w; give the directory that becomes its root", err)
	} else if !info.IsDir() {
		return fmt.Errorf("build an image: %s is not a directory; give the directory that becomes its root", o.Dir)
	}
	if o.output == "" {
		dir, err := o.Resolve()
		if err != nil {
			return err
		}
		if _, err := datadir.Prepare(dir, ""); err != nil {
			return err
		}
		o.output = filepath.Join(localcluster.ImageDir(dir), "local")
	}
	if err := os.MkdirAll(o.output, 0o700); err != nil {
		return err
	}
	o.Config.ExposedPorts = map[string]struct{}{}
	for _, p := range o.expose {
		o.Config.ExposedPorts[p] = struct{}{}
	}
	digest, err := build.Layout(o.output, o.Options)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s, in %s\n", o.Tag, digest, o.output)
	return err
}
