package image

import (
	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// Image is a pulled image, ready to run. Its disk is kept until Release.
type Image struct {
	Name      string // the reference, normalized; the ID after Hold
	ID        string // digest of the configuration, "sha256:…": equal contents have equal IDs
	Digest    string // repository@digest, as in a container's status.imageID; the ID if the image has no digest
	Config    Config
	Disk      string // path of the read-only ext4 file system
	DiskBytes int64
	Pulled    bool // false: the disk was in the cache

	accounts rootdisk.Accounts
	release  func()
}

// Release releases the disk. It may be called more than once.
func (i *Image) Release() { i.release() }

// Config describes how to run an image (opencontainers/image-spec/config.md).
type Config struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"` // NAME=value
	User       string   `json:"user,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
	StopSignal string   `json:"stopSignal,omitempty"`
}
