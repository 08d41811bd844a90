package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// bytesPerSecond is the speed, in bytes of layers as they are stored, below which making a disk is given up. One core
// manages twenty times as many.
const bytesPerSecond = 1 << 20

// conversionTime is how long it may take to make a disk of an image. What an image costs is paid for by its size: a
// small one that was made to be slow does not keep others waiting for long.
func (p *Puller) conversionTime(f *found) time.Duration {
	var bytes int64
	for _, b := range f.layers {
		bytes += p.store.size(blobName(b.digest))
	}
	return p.convert + time.Duration(bytes/bytesPerSecond)*time.Second
}

// makeDisk makes the root disk and the record of an image, and holds the disk. It waits until few enough others do
// the same.
func (p *Puller) makeDisk(ctx context.Context, f *found, config *v1.ConfigFile, layers []rootdisk.Layer) error {
	select {
	case p.converting <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.converting }()
	most := p.conversionTime(f)
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := p.writeDisk(limited, f, config, layers)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("making a disk of its layers took longer than %s: this machine is busy, or the image was made to be slow; rebuild it with fewer layers and links", most)
	}
	return err
}

// writeDisk makes the disk and the record.
func (p *Puller) writeDisk(ctx context.Context, f *found, config *v1.ConfigFile, layers []rootdisk.Layer) error {
	merged, err := rootdisk.Read(ctx, layers, p.limits)
	if err != nil {
		return err
	}
	id := f.config.digest
	rec := &record{Format: format, Config: newConfig(config), Names: map[string]origin{}}
	return p.store.create(diskName(id), merged.DiskBytes(), func(out *os.File) error {
		if rec.Accounts, err = merged.Ext4(ctx, out); err != nil {
			return err
		}
		info, err := out.Stat()
		if err != nil {
			return err
		}
		rec.DiskBytes = info.Size()
		// before the disk appears: a record without a disk is swept, a disk without one is useless
		return rec.write(p.store, id)
	})
}
