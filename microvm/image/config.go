package image

import (
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// Image is a pulled image, ready to run: its disk stays until Release.
type Image struct {
	Name      string // the reference, normalised; the ID after Hold
	ID        string // digest of the configuration, "sha256:…": the same content has the same ID
	Digest    string // repository@digest as a container's status.imageID shows it; the ID where the image has no digest
	Config    Config
	Disk      string // path of the read-only ext4 file system
	DiskBytes int64
	Pulled    bool // false: the disk was there already

	accounts rootdisk.Accounts
	release  func()
}

// Release lets the disk go; it may be called more than once.
func (i *Image) Release() { i.release() }

// Config is what an image says of how it wants to be run (image-spec, config.md).
type Config struct {
	Entrypoint   []string `json:"entrypoint,omitempty"`
	Cmd          []string `json:"cmd,omitempty"`
	Env          []string `json:"env,omitempty"` // NAME=value
	User         string   `json:"user,omitempty"`
	WorkingDir   string   `json:"workingDir,omitempty"`
	StopSignal   string   `json:"stopSignal,omitempty"`
	ExposedPorts []string `json:"exposedPorts,omitempty"` // such as "80/tcp", sorted
	Volumes      []string `json:"volumes,omitempty"`      // paths, sorted
}

func newConfig(f *v1.ConfigFile) Config {
	c := f.Config
	return Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir, StopSignal: c.StopSignal,
		ExposedPorts: slices.Sorted(maps.Keys(c.ExposedPorts)), Volumes: slices.Sorted(maps.Keys(c.Volumes)),
	}
}
