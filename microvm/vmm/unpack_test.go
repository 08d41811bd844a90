package vmm

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// bzImage returns an image with a compressed kernel, as Linux's build makes it.
func bzImage(packed []byte, size int) []byte {
	image := make([]byte, 3*512, 3*512+len(packed)+4)
	image[0x1f1] = 2 // sectors after the first
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(image[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(packed)+4))
	return binary.LittleEndian.AppendUint32(append(image, packed...), uint32(size))
}

// A kernel is unpacked whatever its compression. A broken or unknown image is an error.
func TestKernelsAreUnpacked(t *testing.T) {
	kernel := []byte("abcabcabcabcX" + strings.Repeat("z", 300))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(kernel); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Encoded by hand from the format's description: "abc" and 9 bytes from 3 back; "Xz" and 299 bytes from 1 back; the
	// end.
	block := append([]byte("\x35abc\x03\x00"), []byte("\x2fXz\x01\x00\xff\x19\x00")...)
	lz4 := append(binary.LittleEndian.AppendUint32([]byte(lz4Magic), uint32(len(block))), block...)
	for name, packed := range map[string][]byte{"gzip": zipped.Bytes(), "zstd": z.EncodeAll(kernel, nil), "lz4": lz4} {
		image := bzImage(packed, len(kernel))
		if got, err := payload(image); err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		for cut := range image {
			if got, err := payload(image[:cut]); err == nil {
				t.Errorf("%s: the first %d bytes give %q", name, cut, got)
			}
		}
	}
	if _, err := payload(bzImage([]byte("\xfd7zXZ\x00\x00\x00"), 1)); err == nil {
		t.Error("an unknown format is unpacked")
	}
}

// An image whose kernel cannot be booted by itself is used unchanged.
func TestOtherKernelsAreNotUnpacked(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "vmlinuz-1")
	if err := os.WriteFile(image, []byte("some other kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := unpackKernel(dir, image); got != image || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(bzImage(append([]byte(lz4Magic), 1, 0, 0, 0, 0), 0))
	f.Fuzz(func(t *testing.T, image []byte) {
		if len(image) >= minHeader {
			if kernel, err := payload(image); err == nil {
				_ = bootsDirectly(kernel)
			}
		}
	})
}
