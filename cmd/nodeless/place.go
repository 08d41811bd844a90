package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/kubeconfig"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// defaultName is the name of a cluster that was given none.
const defaultName = "nodeless"

// contextName is the kubeconfig context of a cluster, as kind names those of its own.
func contextName(cluster string) string { return "nodeless-" + cluster }

// place says which cluster of "nodeless up" a command means: by the cluster's name or by the folder of its state.
type place struct {
	name, dataDir string
	flags         *pflag.FlagSet
}

// Usage of --data-dir: cobra would print the home directory of whoever makes the reference.
const dataDirUsage = "folder of the cluster's state (default: $XDG_DATA_HOME/nodeless or ~/.local/share/nodeless; for a cluster with another name, nodeless-NAME beside it)"

// add adds --name and --data-dir.
func (p *place) add(f *pflag.FlagSet) {
	p.flags = f
	f.StringVar(&p.name, "name", "", `name of the cluster of "nodeless up" (default: nodeless)`)
	f.StringVar(&p.dataDir, "data-dir", "", dataDirUsage)
}

// given reports whether the command line itself says which cluster, and not the environment.
func (p *place) given() bool {
	if p.flags == nil {
		return p.name != "" || p.dataDir != ""
	}
	return onCommandLine(p.flags, "name") || onCommandLine(p.flags, "data-dir")
}

// validName is one that can stand in a context's and a folder's name.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// resolve is the absolute path of the data directory.
func (p *place) resolve() (string, error) {
	if p.name != "" && !validName.MatchString(p.name) {
		return "", fmt.Errorf("--name %q: give at most 40 lower-case letters, digits and hyphens, such as team-a", p.name)
	}
	if p.dataDir == "" {
		return p.resolveName()
	}
	if strings.ContainsRune(p.dataDir, 0) {
		return "", fmt.Errorf("data directory %q: not a path", p.dataDir)
	}
	return filepath.Abs(p.dataDir)
}

// resolveName is the folder of a cluster's name: where its context says that it is, or where a cluster of that name
// is made.
func (p *place) resolveName() (string, error) {
	dir, err := defaultDir(cmp.Or(p.name, defaultName))
	if err != nil || p.name == "" {
		return dir, err
	}
	if _, err := datadir.Read(dir); err == nil {
		return dir, nil
	}
	elsewhere := kubeconfig.DataDir(contextName(p.name))
	if m, err := datadir.Read(elsewhere); err == nil && m.Name == p.name {
		return elsewhere, nil
	}
	return dir, nil
}

// defaultDir is where a cluster of that name keeps its state unless --data-dir says otherwise.
func defaultDir(name string) (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the data directory: %w; say where with --data-dir", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	folder := "nodeless"
	if name != defaultName {
		folder += "-" + name
	}
	return filepath.Abs(filepath.Join(base, folder))
}

// resolveExisting is resolve for commands that make no cluster: one that both flags name has to be one.
func (p *place) resolveExisting() (string, error) {
	dir, err := p.resolve()
	if err != nil {
		return "", err
	}
	m, err := datadir.Read(dir)
	switch {
	case errors.Is(err, datadir.ErrNotOurs) || errors.Is(err, fs.ErrNotExist):
		return dir, nil // nothing runs there, which the command says
	case err != nil:
		return "", err
	case p.name != "" && p.dataDir != "" && cmp.Or(m.Name, defaultName) != p.name:
		return "", fmt.Errorf("--name %s: the cluster in %s is called %s; leave out one of --name and --data-dir", p.name,
			dir, cmp.Or(m.Name, defaultName))
	}
	return dir, nil
}

// fromEnvironment is the place that the environment names, for commands whose flags are not ours.
func fromEnvironment() place {
	p := place{name: os.Getenv("NODELESS_NAME"), dataDir: os.Getenv("NODELESS_DATA_DIR")}
	return p
}

// placeFlag is what a command needs to find the cluster of a data directory, with a space before it; "" if it is
// found without.
func placeFlag(dir, name string) string {
	without := fromEnvironment()
	if found, err := without.resolve(); err == nil && found == dir {
		return ""
	}
	if found, err := defaultDir(name); err == nil && found == dir {
		return " --name " + name
	}
	return datadir.Flag(dir)
}

// commandFor is a command line about the cluster of a data directory: "nodeless down --name b".
func commandFor(command, dir, name string) string {
	return selfName() + " " + command + placeFlag(dir, name)
}

// clusterIn is the name of the cluster of a data directory, also of one that is still to be made.
func clusterIn(dir string) string {
	m, _ := datadir.Read(dir) // a folder that cannot be read has no name to tell
	if m.Name != "" {
		return m.Name
	}
	if name, named := strings.CutPrefix(filepath.Base(dir), "nodeless-"); named && validName.MatchString(name) {
		if of, err := defaultDir(name); err == nil && of == dir {
			return name
		}
	}
	return defaultName
}

// nothingRuns says that there is no cluster in a data directory, and how to have one.
func nothingRuns(dir string) string {
	return fmt.Sprintf("nothing runs in %s; start a cluster with: %s", dir, commandFor("up", dir, clusterIn(dir)))
}

// selfName is how the user called this program.
func selfName() string {
	name, _ := calledAs(os.Args[0], nil)
	if self := os.Args[0]; name == "nodeless" && filepath.Base(self) != self {
		return self
	}
	return name
}
