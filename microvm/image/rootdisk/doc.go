// Package rootdisk turns the layers of a container image into one read-only ext4 file system: what a pod's microVM
// boots from.
//
// Layers are applied to a tree in memory, upper over lower, with whiteouts, hard links and symbolic links read as the
// OCI image specification (layer.md) says; the tree is then written as one stream from which tar2ext4 makes the disk.
// No path of an image is ever opened, created or followed on the host, and no privilege is needed: a hostile image
// can only spoil its own disk, and what would be dangerous or endless even there is refused with the layer, the
// entry, the cause and what to do (Refused).
package rootdisk

import (
	"fmt"
	"io"
)

// Layer is one layer of an image.
type Layer struct {
	// Name is what errors call the layer: its digest.
	Name string
	// DiffID is the expected "sha256:…" of the uncompressed tar; empty is not checked.
	DiffID string
	// Open gives the layer's tar, uncompressed or compressed with gzip or zstd; it is called twice.
	Open func() (io.ReadCloser, error)
}

// Limits bound what an image may ask of the host. A zero field means its default.
type Limits struct {
	// Bytes of all files of all layers together, and of each layer's uncompressed tar. Default 10 GiB: half of the 20
	// GiB of storage that a Fargate pod gets.
	Bytes int64
	// Entries of all layers together. Default 1,000,000.
	Entries int
	// MetadataBytes is the length of all names, link targets and extended attributes together. Default 256 MiB.
	MetadataBytes int64
	// Ratio of uncompressed to compressed bytes that a layer may have once it is larger than RatioFrom. Defaults: 400,
	// 256 MiB.
	Ratio     int64
	RatioFrom int64
}

// OrDefault fills the fields that are zero.
func (l Limits) OrDefault() Limits {
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Bytes, 10<<30)
	set(&l.MetadataBytes, 256<<20)
	set(&l.Ratio, 400)
	set(&l.RatioFrom, 256<<20)
	if l.Entries == 0 {
		l.Entries = 1_000_000
	}
	return l
}

// Refused says which part of an image cannot become a disk, why, and what to do.
type Refused struct {
	Layer  string // the layer's digest
	Entry  string // the tar entry, empty when the layer as a whole is meant
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

// Unwrap gives the cause.
func (r *Refused) Unwrap() error { return r.Cause }

// Remedies that several refusals share.
const (
	remedyRebuild = "rebuild the image without it"
	remedyPull    = "the image is damaged: push it again, or delete the local copy"
	remedySmaller = "make the image smaller, or raise the limit of the host if you trust the image"
)

// short keeps hostile names out of logs and pod statuses.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
