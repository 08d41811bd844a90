package vmm

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// unpackKernel writes the kernel in a bzImage to a file in dir that is named after the image's content, and returns
// its path: a VMM loads it at once, while a guest spends a fifth of its boot decompressing it. If the image cannot be
// unpacked, or the kernel cannot boot on its own, unpackKernel returns the image.
func unpackKernel(dir, image string) (string, error) {
	content, err := os.ReadFile(image)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("vmlinux-%x", sha256.Sum256(content)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	kernel, err := payload(content)
	if err != nil || !bootsDirectly(kernel) {
		return image, nil //nolint:nilerr // the VMM unpacks it, or says what is wrong
	}
	old, _ := filepath.Glob(filepath.Join(dir, "vmlinux-*")) // the pattern is well formed
	for _, o := range old {
		_ = os.Remove(o) // VMMs have already read it
	}
	return path, atomicfile.Write(path, kernel)
}

// Limits in bytes: the size of a decompressed kernel, and the part of an image that contains its header.
const (
	maxKernel = 512 << 20
	minHeader = 0x250
)

var errNoPayload = errors.New("not a bzImage whose kernel can be unpacked")

// payload decompresses the kernel of a bzImage (Linux, Documentation/x86/boot.rst, protocol 2.08 and later).
func payload(image []byte) ([]byte, error) {
	if len(image) < minHeader || string(image[0x202:0x206]) != "HdrS" ||
		binary.LittleEndian.Uint16(image[0x206:]) < 0x208 {
		return nil, errNoPayload
	}
	sectors := int64(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	begin := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(image[0x248:]))
	end := begin + int64(binary.LittleEndian.Uint32(image[0x24c:]))
	if end > int64(len(image)) || end-begin < 8 {
		return nil, errNoPayload
	}
	packed := image[begin:end]
	// The last four bytes are the decompressed size, which marks the end for formats without one.
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:])
	if size > maxKernel {
		return nil, errNoPayload
	}
	switch {
	case bytes.HasPrefix(packed, []byte(lz4Magic)):
		return unpackLZ4(packed, int(size))
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		r.Multistream(false)
		return io.ReadAll(io.LimitReader(r, maxKernel))
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxKernel), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(packed[:len(packed)-4], nil)
	}
	return nil, errNoPayload
}

// lz4Magic begins LZ4's legacy frame, the format of kernels (LZ4 Frame Format Description, "Legacy frame").
const lz4Magic = "\x02\x21\x4c\x18"

// unpackLZ4 decompresses a legacy frame of size bytes; the size itself follows the frame.
func unpackLZ4(frame []byte, size int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(frame)), int64(size)+1))
	if err == nil && len(out) != size {
		err = errNoPayload
	}
	return out, err
}

// noteEntry is XEN_ELFNOTE_PHYS32_ENTRY, the type of the ELF note with the entry point for a VMM (PVH).
const noteEntry = 18

// bootsDirectly reports whether a VMM can boot a kernel without its bzImage.
func bootsDirectly(kernel []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil || f.Machine != elf.EM_X86_64 {
		return false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(io.LimitReader(p.Open(), 1<<20))
		if err != nil {
			return false
		}
		for len(notes) >= 12 {
			name := int64(binary.LittleEndian.Uint32(notes))
			value := int64(binary.LittleEndian.Uint32(notes[4:]))
			if binary.LittleEndian.Uint32(notes[8:]) == noteEntry && bytes.HasPrefix(notes[12:], []byte("Xen\x00")) {
				return true
			}
			next := 12 + (name+3)&^3 + (value+3)&^3
			if next > int64(len(notes)) {
				return false
			}
			notes = notes[next:]
		}
	}
	return false
}
