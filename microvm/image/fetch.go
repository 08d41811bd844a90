package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// Limits on downloads: how many layers of one image are downloaded at a time, as in dockerd's
// --max-concurrent-downloads, and how often an interrupted download is tried.
const (
	parallelLayers = 3
	attempts       = 3
)

const remedyLimit = "make the image smaller, or raise the limit of the host if you trust the image"

// errDamaged is returned for content that does not match its digest.
var errDamaged = errors.New("content is damaged")

// readBlob reads a small blob.
func readBlob(ctx context.Context, open openBlob, b blob) ([]byte, error) {
	r, err := open(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w%s", b.digest, err, missing(err))
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	// Package remote verifies the digest, too; its error is replaced by one with a remedy.
	if err != nil && (ctx.Err() != nil || !strings.HasPrefix(err.Error(), "error verifying ")) {
		return nil, fmt.Errorf("read %s: %w", b.digest, err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes; build the image again with less metadata", b.digest,
			maxConfigBytes)
	}
	if got, _, failed := v1.SHA256(bytes.NewReader(data)); failed != nil || got != b.digest {
		return nil, fmt.Errorf("%w: %s has the digest %s; push the image again, or delete the local copy", errDamaged,
			b.digest, got)
	}
	return data, nil
}

func missing(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return ": the image is incomplete; build or copy it again"
	}
	return ""
}

// configFile reads and checks the image's configuration.
func (f *found) configFile(ctx context.Context, platform v1.Platform) (*v1.ConfigFile, error) {
	data, err := readBlob(ctx, f.open, f.config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("configuration %s is no JSON: %w; build the image again", f.config.digest, err)
	}
	// Some builders leave the platform out; such an image counts as one for this platform.
	if config.OS != "" && config.OS != platform.OS || config.Architecture != "" &&
		config.Architecture != platform.Architecture {
		return nil, platformError(platform,
			v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}.String())
	}
	if len(config.RootFS.DiffIDs) != len(f.layers) {
		return nil, fmt.Errorf("configuration %s names %d layers, the manifest %d; build the image again",
			f.config.digest, len(config.RootFS.DiffIDs), len(f.layers))
	}
	return config, nil
}

// fetch downloads the image's layers into the store, and holds them until release.
func (p *Puller) fetch(ctx context.Context, f *found, config *v1.ConfigFile) (layers []rootdisk.Layer,
	release func(), err error,
) {
	held := make([]string, len(f.layers))
	release = sync.OnceFunc(func() {
		for _, name := range held {
			if name != "" {
				p.store.release(name)
			}
		}
	})
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLayers)
	for i, b := range f.layers {
		group.Go(func() error {
			if err := p.fetchBlob(groupCtx, f, b); err != nil {
				return fmt.Errorf("layer %s: %w", b.digest, err)
			}
			held[i] = blobName(b.digest)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		release()
		return nil, nil, err
	}
	for i, b := range f.layers {
		layers = append(layers, rootdisk.Layer{
			Name: b.digest.String(), DiffID: config.RootFS.DiffIDs[i].String(),
			Open: func() (io.ReadCloser, error) { return os.Open(p.store.path(blobName(b.digest))) },
		})
	}
	return layers, release, nil
}

// fetchBlob downloads one layer into the store, or waits for another pull that does so, and holds it.
func (p *Puller) fetchBlob(ctx context.Context, f *found, b blob) error {
	return p.blobs.do(ctx, blobName(b.digest), func(ctx context.Context) error {
		var err error
		for range attempts {
			if err = p.download(ctx, f, b); err == nil || ctx.Err() != nil || !interrupted(err) {
				return err
			}
		}
		return err
	})
}

// interrupted reports whether err is a broken connection, which is worth another attempt, rather than an answer.
func interrupted(err error) bool {
	var network net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errStalled) || errors.As(err, &network)
}

// download streams a blob into the store and verifies it.
func (p *Puller) download(ctx context.Context, f *found, b blob) error {
	if b.size > p.limits.Bytes {
		return fmt.Errorf("is %d bytes, at most %d are accepted; %s", b.size, p.limits.Bytes, remedyLimit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := f.open(ctx, b)
	if err != nil {
		return fmt.Errorf("%w%s", err, missing(err))
	}
	defer r.Close()
	return p.store.create(blobName(b.digest), max(b.size, 0), func(out *os.File) error {
		from := newStallReader(r, p.stall, cancel)
		defer from.timer.Stop()
		limit := b.size
		if limit < 0 {
			limit = p.limits.Bytes
		}
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(from, limit+1))
		if context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		return f.checkDownload(b, n, limit, hex.EncodeToString(sum.Sum(nil)), err)
	})
}

// checkDownload returns what is wrong with a download of n bytes with the digest got, which ended with err.
func (f *found) checkDownload(b blob, n, limit int64, got string, err error) error {
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk) || err != nil && interrupted(err):
		return fmt.Errorf("download from %s: %w", f.where, err)
	case b.size < 0 && n > limit:
		return fmt.Errorf("is more than %d bytes; %s", limit, remedyLimit)
	case b.size >= 0 && n > limit:
		return fmt.Errorf("%w: %s sends more than the %d bytes of the manifest; push the image again", errDamaged,
			f.where, b.size)
	case n < b.size:
		return fmt.Errorf("download from %s ended after %d of %d bytes: %w; push the image again if it happens again",
			f.where, n, b.size, io.ErrUnexpectedEOF)
	case got != b.digest.Hex:
		return fmt.Errorf("%w: what %s has under this digest has the digest sha256:%s; push the image again, or delete the "+
			"local copy", errDamaged, f.where, got)
	case err != nil:
		return fmt.Errorf("download from %s: %w", f.where, err)
	}
	return nil
}

// errStalled is returned when a registry stops sending without closing the connection.
var errStalled = errors.New("the registry stopped sending")

// stallReader ends a download that makes no progress.
type stallReader struct {
	io.Reader
	timer *time.Timer
	stall time.Duration
}

func newStallReader(r io.Reader, stall time.Duration, cancel context.CancelCauseFunc) *stallReader {
	return &stallReader{Reader: r, stall: stall, timer: time.AfterFunc(stall, func() {
		cancel(fmt.Errorf("%w for %s", errStalled, stall))
	})}
}

func (w *stallReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.timer.Reset(w.stall)
	}
	return n, err
}
