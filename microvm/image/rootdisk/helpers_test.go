package rootdisk

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"testing"
)

// item is an entry of a layer. Only files have content.
type item struct {
	tar.Header
	content string
}

func file(name, content string) item {
	return item{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func dir(name string) item {
	return item{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
}

func symlink(name, to string) item {
	return item{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}}
}

func hardlink(name, to string) item {
	return item{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}}
}

func device(name string) item {
	return item{Header: tar.Header{Typeflag: tar.TypeBlock, Name: name, Devmajor: 254, Mode: 0o666}}
}

func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := i.Header
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// layer returns the layer that an honest builder makes from the items.
func layer(t testing.TB, items ...item) Layer {
	t.Helper()
	data := archive(t, items...)
	sum := sha256.Sum256(data)
	diff := "sha256:" + hex.EncodeToString(sum[:])
	return Layer{Name: diff[:15], DiffID: diff, Open: opener(gzipped(t, data))}
}

// listing describes a root file system, one line per path.
func listing(t *testing.T, layers ...Layer) string {
	t.Helper()
	img, err := Read(t.Context(), layers, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := img.Tar(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			sort.Strings(lines)
			return strings.Join(lines, "\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			lines = append(lines, fmt.Sprintf("%s -> %s", h.Name, h.Linkname))
		case tar.TypeLink:
			lines = append(lines, fmt.Sprintf("%s = %s", h.Name, h.Linkname))
		case tar.TypeDir:
			if h.Name != "./" {
				lines = append(lines, h.Name)
			}
		default:
			lines = append(lines, fmt.Sprintf("%s: %s", h.Name, content))
		}
	}
}
