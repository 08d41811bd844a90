package rootdisk

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// zstdWindow bounds the windows of zstd streams, which occupy the host's memory. The encoders of image builders use
// at most 8 MiB, `zstd --long` 128 MiB.
const zstdWindow = 128 << 20

// stream is the uncompressed tar of a layer. Reads count against the limits and end with the context.
type stream struct {
	ctx        context.Context
	layer      Layer
	limits     Limits
	blob       io.ReadCloser
	compressed *counter
	plain      io.Reader
	unzip      io.Closer
	sum        hash.Hash
	bytes      int64
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func open(ctx context.Context, l Layer, limits Limits) (*stream, error) {
	blob, err := l.Open()
	if err != nil {
		cause, remedy := fmt.Errorf("cannot be read: %w", err), "see the cause"
		if errors.Is(err, fs.ErrNotExist) {
			cause, remedy = fmt.Errorf("is missing: %w", err), remedyPull
		}
		return nil, &Refused{Layer: l.Name, Cause: cause, Remedy: remedy}
	}
	s := &stream{ctx: ctx, layer: l, limits: limits, blob: blob, compressed: &counter{r: blob}, sum: sha256.New()}
	if err := s.decompress(); err != nil {
		_ = blob.Close()
		return nil, s.refuse(fmt.Errorf("cannot be uncompressed: %w", err), remedyPull)
	}
	return s, nil
}

// decompress recognizes the compression by the first bytes, as every runtime does, since media types are often wrong.
func (s *stream) decompress() error {
	b := bufio.NewReaderSize(s.compressed, 64<<10)
	magic, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		s.plain, s.unzip = z, z
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return err
		}
		s.plain, s.unzip = z, z.IOReadCloser()
	default:
		s.plain = b
	}
	return nil
}

// Read returns uncompressed bytes, or a refusal once there are too many.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.plain.Read(p)
	s.sum.Write(p[:n])
	s.bytes += int64(n)
	switch {
	case s.bytes > s.limits.Bytes:
		return n, s.refuse(fmt.Errorf("is larger than %d bytes uncompressed", s.limits.Bytes), remedySmaller)
	case s.unzip != nil && s.bytes > s.limits.RatioFrom && s.bytes/s.limits.Ratio > s.compressed.n:
		return n, s.refuse(fmt.Errorf("expands to more than %d times its size (%d bytes became %d): it looks like a zip bomb",
			s.limits.Ratio, s.compressed.n, s.bytes), remedySmaller)
	case err != nil && !errors.Is(err, io.EOF):
		return n, s.refuse(fmt.Errorf("cannot be uncompressed: %w", err), remedyPull)
	}
	return n, err
}

// verify reads what is left and compares the whole tar with the layer's diff ID.
func (s *stream) verify() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(s.sum.Sum(nil)); s.layer.DiffID != "" && got != s.layer.DiffID {
		return s.refuse(fmt.Errorf("uncompressed digest is %s, the image's configuration says %s", got, s.layer.DiffID),
			remedyPull)
	}
	return nil
}

func (s *stream) close() {
	if s.unzip != nil {
		_ = s.unzip.Close()
	}
	_ = s.blob.Close()
}

func (s *stream) refuse(cause error, remedy string) error {
	var already *Refused
	if errors.As(cause, &already) {
		return already
	}
	return &Refused{Layer: s.layer.Name, Cause: cause, Remedy: remedy}
}
