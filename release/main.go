// Command release makes what users install: the controller's image, the Helm charts, and archives of the program.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

const usage = `Makes what users install. Run it in the repository's root.

  release image  [-version V] [-arch amd64,arm64] [-out bin/dist]
      an OCI layout of the controller's image, with bills of materials and provenance
  release chart  [-version V] [-out bin/dist]
      the packages of the charts nodeless and nodeless-crd
  release kustomize [-version V] [-out bin/dist]
      a base for Kustomize: the chart's objects with its default values
  release archives [-version V] [-platforms linux/amd64,linux/arm64,darwin/amd64,darwin/arm64] [-out bin/dist]
      archives of the program, and the manifest of kubectl's plugin manager krew
  release notes  [-version V] [-out bin/dist]
      what CHANGELOG.md says of the version, and the checksums of all of the above
`

// options are those of all commands.
type options struct {
	root      string     // the repository
	out       string     // where to write
	version   string     // a SemVer version without a leading v
	archs     []string   // of the image, as Go calls them
	platforms []platform // of archives
	say       io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, options) error{
		"image": writeImage, "chart": writeCharts, "kustomize": writeKustomize,
		"archives": writeArchives, "notes": writeNotes,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("give one of the commands above")
	}
	o := options{root: ".", say: os.Stdout}
	var archs, on string
	f := flag.NewFlagSet("release "+args[0], flag.ExitOnError)
	f.StringVar(&o.out, "out", "bin/dist", "folder to write to")
	f.StringVar(&o.version, "version", "", "version (default: from git's tags)")
	f.StringVar(&archs, "arch", "amd64,arm64", "architectures of the image")
	f.StringVar(&on, "platforms", listed(platforms), "platforms of the archives")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if o.platforms, err = parsePlatforms(on); err != nil {
		return err
	}
	o.archs = strings.Split(archs, ",")
	if o.version == "" {
		if o.version, err = gitVersion(ctx, o.root); err != nil {
			return err
		}
	}
	o.version = strings.TrimPrefix(o.version, "v")
	return commands[args[0]](ctx, o)
}
