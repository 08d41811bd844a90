// Package rootdisk converts the layers of a container image to one read-only ext4 file system, which a pod's microVM
// boots from.
//
// The method: layers are applied to a tree in memory, upper over lower, with whiteouts, hard links and symbolic links
// as in the OCI image specification (opencontainers/image-spec/layer.md). The tree is then written as one tar stream,
// from which tar2ext4 makes the disk.
//
// No path of an image is ever opened, created or followed on the host, and no privilege is needed: a hostile image can
// only spoil its own disk. What would be dangerous or endless even there is refused (Refused).
package rootdisk

import (
	"cmp"
	"fmt"
	"io"
)

// Layer is one layer of an image.
type Layer struct {
	// Name is the layer's digest, for errors.
	Name string
	// DiffID is the expected "sha256:…" of the uncompressed tar; empty is not checked.
	DiffID string
	// Open opens the layer's tar, uncompressed or compressed with gzip or zstd. It is called twice.
	Open func() (io.ReadCloser, error)
}

// Limits bound what an image may use of the host. A zero field means its default.
type Limits struct {
	// Bytes of all files of all layers together, and of each layer's uncompressed tar. Default: 10 GiB, half of the
	// storage that a Fargate pod gets.
	Bytes int64
	// Entries of all layers together. Default: 1,000,000.
	Entries int
	// MetadataBytes is the length of all names, link targets and extended attributes together. Default: 256 MiB.
	MetadataBytes int64
	// Ratio is how many uncompressed bytes a layer larger than RatioFrom may have per compressed byte. Defaults: 400 and
	// 256 MiB.
	Ratio     int64
	RatioFrom int64
}

// OrDefault returns the limits with defaults in place of zeros.
func (l Limits) OrDefault() Limits {
	return Limits{
		Bytes: cmp.Or(l.Bytes, 10<<30), Entries: cmp.Or(l.Entries, 1_000_000),
		MetadataBytes: cmp.Or(l.MetadataBytes, 256<<20),
		Ratio:         cmp.Or(l.Ratio, 400), RatioFrom: cmp.Or(l.RatioFrom, 256<<20),
	}
}

// Refused says which part of an image cannot become a disk, why, and what to do about it.
type Refused struct {
	Layer  string // the layer's digest
	Entry  string // the tar entry; empty if the layer as a whole is refused
	Cause  error
	Remedy string
}

func (r *Refused) Error() string {
	at := "layer " + r.Layer
	if r.Entry != "" {
		at += fmt.Sprintf(": entry %q", short(r.Entry))
	}
	return fmt.Sprintf("%s: %v; %s", at, r.Cause, r.Remedy)
}

// Unwrap returns the cause.
func (r *Refused) Unwrap() error { return r.Cause }

// Remedies that several refusals share.
const (
	remedyRebuild = "rebuild the image without it"
	remedyPull    = "the image is damaged: push it again, or delete the local copy"
	remedySmaller = "make the image smaller, or raise the limit of the host if you trust the image"
)

// short truncates hostile names for logs and pod statuses.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
