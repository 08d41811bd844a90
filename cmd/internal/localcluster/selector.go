// Package localcluster finds the clusters of "nodeless up" by their names and data directories, and knows the files
// in these directories.
package localcluster

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
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// defaultName is the name of a cluster that was not given one.
const defaultName = "nodeless"

// ContextName returns the kubeconfig context of a cluster, in the way of kind.
func ContextName(cluster string) string { return "nodeless-" + cluster }

// Selector says which cluster of "nodeless up" a command is about: by the cluster's name or by the folder of its
// state.
type Selector struct {
	Name, DataDir string
	Set           *pflag.FlagSet
}

// DataDirUsage is the usage of --data-dir: cobra would print the home directory of whoever generates the reference.
const DataDirUsage = "folder of the cluster's state (default: $XDG_DATA_HOME/nodeless or ~/.local/share/nodeless; " +
	"nodeless-NAME beside it for a cluster with another name)"

// Add adds --name and --data-dir.
func (p *Selector) Add(f *pflag.FlagSet) {
	p.Set = f
	f.StringVar(&p.Name, "name", "", `name of the cluster of "nodeless up" (default: nodeless)`)
	f.StringVar(&p.DataDir, "data-dir", "", DataDirUsage)
}

// Named reports whether the command line or the environment says which cluster.
func (p *Selector) Named() bool {
	return p.Name != "" || p.DataDir != "" || p.Set != nil && program.Placed(p.Set)
}

// validName matches names that are valid in those of contexts and folders.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Resolve returns the absolute path of the data directory.
func (p *Selector) Resolve() (string, error) {
	if p.Name != "" && !validName.MatchString(p.Name) {
		return "", fmt.Errorf("--name %q: give at most 40 lower-case letters, digits and hyphens, such as team-a", p.Name)
	}
	if p.DataDir == "" {
		return p.resolveName()
	}
	if strings.ContainsRune(p.DataDir, 0) {
		return "", fmt.Errorf("data directory %q: not a path", p.DataDir)
	}
	return filepath.Abs(p.DataDir)
}

// resolveName returns the folder for a cluster's name: the default one if it holds a cluster, else the one that the
// cluster's context names, else the default one, where a cluster of that name would be created.
func (p *Selector) resolveName() (string, error) {
	dir, err := defaultDir(cmp.Or(p.Name, defaultName))
	if err != nil || p.Name == "" {
		return dir, err
	}
	if _, err := datadir.Read(dir); err == nil {
		return dir, nil
	}
	elsewhere := kubeconfig.DataDir(ContextName(p.Name))
	if m, err := datadir.Read(elsewhere); err == nil && m.Name == p.Name {
		return elsewhere, nil
	}
	return dir, nil
}

// defaultDir returns where a cluster with a name keeps its state unless --data-dir says otherwise.
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

// ResolveExisting is Resolve for commands that create no cluster: if both flags are given, they must name the same
// one.
func (p *Selector) ResolveExisting() (string, error) {
	dir, err := p.Resolve()
	if err != nil {
		return "", err
	}
	m, err := datadir.Read(dir)
	switch {
	case errors.Is(err, datadir.ErrNotOurs) || errors.Is(err, fs.ErrNotExist):
		return dir, nil // nothing runs there, which the command reports
	case err != nil:
		return "", err
	case p.Name != "" && p.DataDir != "" && cmp.Or(m.Name, defaultName) != p.Name:
		return "", fmt.Errorf("--name %s: the cluster in %s is called %s; leave out one of --name and --data-dir", p.Name,
			dir, cmp.Or(m.Name, defaultName))
	}
	return dir, nil
}

// FromEnvironment returns the Selector that the environment gives, for commands whose flags are not ours.
func FromEnvironment() Selector {
	p := Selector{Name: os.Getenv("NODELESS_NAME"), DataDir: os.Getenv("NODELESS_DATA_DIR")}
	return p
}

// placeFlag returns the flag that a command needs to find the cluster of a data directory, with a space before it; ""
// if it needs none.
func placeFlag(dir, name string) string {
	without := FromEnvironment()
	if found, err := without.Resolve(); err == nil && found == dir {
		return ""
	}
	if found, err := defaultDir(name); err == nil && found == dir {
		return " --name " + name
	}
	return datadir.Flag(dir)
}

// CommandFor returns a command line about the cluster of a data directory, such as "nodeless down --name b".
func CommandFor(command, dir, name string) string {
	return program.Name() + " " + command + placeFlag(dir, name)
}

// NameIn returns the name of the cluster of a data directory, even if it is yet to be created.
func NameIn(dir string) string {
	m, _ := datadir.Read(dir) // a folder that cannot be read has no name
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

// NothingRuns returns a message that no cluster runs in a data directory, and how to start one.
func NothingRuns(dir string) string {
	return fmt.Sprintf("nothing runs in %s; start a cluster with: %s", dir, CommandFor("up", dir, NameIn(dir)))
}
