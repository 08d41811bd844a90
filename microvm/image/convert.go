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

// bytesPerSecond is the speed, in bytes of stored layers, below which a conversion is abandoned. One core converts
// twenty times as fast.
const bytesPerSecond = 1 << 20

// conversionTime returns how long it may take to make a disk of an image. It grows with the image's size, so that a
// small image crafted to be slow does not keep others waiting for long.
func (p *Puller) conversionTime(f *found) time.Duration {
	var bytes int64
	for _, b := range f.layers {
		bytes += p.store.size(blobName(b.digest))
	}
	return p.convert + time.Duration(bytes/bytesPerSecond)*time.Second
}

// makeDisk makes the root disk and the record of an image, and holds the disk. It first waits until it may start: the
// number of concurrent conversions is limited.
func (p *Puller) makeDisk(ctx context.Context, f *found, config *v1.ConfigFile, layers []rootdisk.Layer) error {
	select {
	case p.converting <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.converting }()
	limit := p.conversionTime(f)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := p.writeDisk(limited, f, config, layers)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("making a disk of its layers took longer than %s: the host is busy, or the image was made to be "+
			"slow; rebuild it with fewer layers and links", limit)
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
	rec := &record{Format: format, Names: map[string]origin{}, Config: Config{
		Entrypoint: config.Config.Entrypoint, Cmd: config.Config.Cmd, Env: config.Config.Env, User: config.Config.User,
		WorkingDir: config.Config.WorkingDir, StopSignal: config.Config.StopSignal,
	}}
	return p.store.create(diskName(id), merged.DiskBytes(), func(out *os.File) error {
		if rec.Accounts, err = merged.Ext4(ctx, out); err != nil {
			return err
		}
		info, err := out.Stat()
		if err != nil {
			return err
		}
		rec.DiskBytes = info.Size()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.records[id] = rec // instead of that of an evicted disk, whose names the new one does not have on disk
		// Before the disk appears: a lone record is removed at the next start, but a disk without a record is useless.
		return rec.write(p.store, id)
	})
}
