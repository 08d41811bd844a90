package rootdisk

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/Microsoft/hcsshim/ext4/tar2ext4"
)

// Accounts are the image's /etc/passwd and /etc/group, for the lookup of users and groups by name. They are empty if
// the image has none.
type Accounts struct {
	Passwd, Group []byte
}

// Image is a set of layers that have been read, checked and merged.
type Image struct {
	tree   *tree
	layers []Layer
}

// Read applies the layers, lowest first. An error that the image causes is a *Refused.
func Read(ctx context.Context, layers []Layer, limits Limits) (*Image, error) {
	t := newTree(limits.OrDefault())
	for i, l := range layers {
		s, err := open(ctx, l, t.limits)
		if err != nil {
			return nil, err
		}
		err = t.apply(s, i)
		s.close()
		if err != nil {
			return nil, err
		}
	}
	return &Image{tree: t, layers: layers}, nil
}

// DiskBytes returns an upper estimate of the disk's size: contents in blocks of 4 KiB, inodes of 256 bytes, directory
// entries, and the metadata of ext4 itself.
func (i *Image) DiskBytes() int64 {
	t := i.tree
	return t.bytes + int64(t.entries)*(4096+256) + 2*t.metadata + t.bytes/64 + 16<<20
}

// Tar writes the merged file system as a tar. An Image can be written once, by Tar or by Ext4.
func (i *Image) Tar(ctx context.Context, out io.Writer) (Accounts, error) {
	return i.tree.write(ctx, i.layers, out)
}

// Ext4 writes the merged file system as a read-only ext4 file system. An Image can be written once, by Tar or by Ext4.
func (i *Image) Ext4(ctx context.Context, out io.ReadWriteSeeker) (Accounts, error) {
	r, w := io.Pipe()
	type written struct {
		accounts Accounts
		err      error
	}
	done := make(chan written, 1)
	go func() {
		accounts, err := i.Tar(ctx, w)
		_ = w.CloseWithError(err)
		done <- written{accounts, err}
	}()
	err := tar2ext4.Convert(r, out, tar2ext4.MaximumDiskSize(2*i.DiskBytes()))
	if err == nil {
		_, err = io.Copy(io.Discard, r) // the archive's padding, so that the writer does not find the pipe closed
	}
	_ = r.CloseWithError(err)
	result := <-done
	// Prefer the writer's error: if the disk fails, the writer fails with the same cause and names the entry; if the
	// writer fails, so does the disk.
	if err = cmp.Or(result.err, err); err != nil {
		return Accounts{}, fmt.Errorf("make the root disk: %w", err)
	}
	return result.accounts, nil
}
