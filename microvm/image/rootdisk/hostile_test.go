package rootdisk

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"
)

// Each refusal names the layer, the entry, the cause and a remedy.
func TestHostileLayersAreRefused(t *testing.T) {
	small := Limits{Bytes: 1 << 20, Entries: 50, MetadataBytes: 8 << 10, Ratio: 20, RatioFrom: 64 << 10}
	xattr := file("a", "")
	xattr.Format, xattr.PAXRecords = tar.FormatPAX, map[string]string{paxXattr + "user.big": strings.Repeat("v", 5000)}
	owner := file("a", "")
	owner.Uid, owner.Format = -5, tar.FormatGNU
	many := make([]item, 60)
	for i := range many {
		many[i] = file(fmt.Sprint("f", i), "")
	}
	long := make([]item, 40)
	for i := range long {
		long[i] = file(strings.Repeat("n", 240)+fmt.Sprint(i), "")
	}
	deep := []item{symlink("s", strings.Repeat("d/", 1900)+"d")}
	for range 3 {
		deep = append(deep, file("s/"+strings.Repeat("e/", 1000)+"f", ""), symlink("s", "s/"+strings.Repeat("e/", 900)+"e"))
	}
	for _, c := range []struct {
		idea   string
		limits Limits
		items  []item
		want   []string
	}{
		{
			"path traversal", small,
			[]item{file("../../etc/cron.d/x", "")},
			[]string{`entry "../../etc/cron.d/x"`, "path traversal", "rebuild"},
		},
		{"path traversal in the middle", small, []item{file("a/../../b", "")}, []string{"path traversal"}},
		{"path traversal of a whiteout", small, []item{file("../.wh.etc", "")}, []string{"path traversal"}},
		{"a whiteout of the parent", small, []item{file("a/.wh...", "")}, []string{`whiteout of ".."`}},
		{
			"a hard link out of the tree", small,
			[]item{hardlink("shadow", "../../etc/shadow")},
			[]string{"hard link", "path traversal"},
		},
		{
			"a hard link to the host's file", small,
			[]item{hardlink("shadow", "/etc/shadow")},
			[]string{`hard link's target "/etc/shadow"`, "does not exist"},
		},
		{"a hard link to a directory", small, []item{dir("d"), hardlink("l", "d")}, []string{"is a directory"}},
		{"a hard link to the root", small, []item{hardlink("l", "/")}, []string{"root directory"}},
		{"a device node", small, []item{device("disk")}, []string{`entry "disk"`, "device node (254:0)"}},
		{
			"a device node behind a link to /dev", small,
			[]item{symlink("d", "/dev"), device("d/vda")},
			[]string{"device node"},
		},
		{
			"a loop of symbolic links", small,
			[]item{symlink("a", "b"), symlink("b", "a"), file("a/x", "")},
			[]string{"symbolic links"},
		},
		{"a path through a file", small, []item{file("a", ""), file("a/b", "")}, []string{"not a directory"}},
		{"a root that is a file", small, []item{file(".", "")}, []string{"root of the image is not a directory"}},
		{"a file where ext4 keeps a directory", small, []item{file("lost+found", "")}, []string{"every ext4"}},
		{"an empty link", small, []item{symlink("a", "")}, []string{"target is 0 bytes"}},
		{"a long name", small, []item{file(strings.Repeat("n", 256), "")}, []string{"name is 256 bytes"}},
		{"a long path", Limits{}, []item{file(strings.Repeat("n/", 2100)+"f", "")}, []string{"path is 4201 bytes"}},
		{"a path made long by links", Limits{}, deep, []string{"deeper than the 4095 bytes"}},
		{"a large attribute", small, []item{xattr}, []string{"extended attributes", "user.big", "room for 3900"}},
		{"an owner that is none", small, []item{owner}, []string{"owner -5:0"}},
		{"too many entries", small, many, []string{"more than 50 entries", "raise the limit"}},
		{
			"too many directories in one name", small,
			[]item{file(strings.Repeat("d/", 60)+"f", "")},
			[]string{"more than 50 entries", "raise the limit"},
		},
		{"too many names", small, long, []string{"names and attributes take more than 8192", "raise the limit"}},
		{
			"a giant file", small,
			[]item{file("a", strings.Repeat("x", 1<<20+1))},
			[]string{"more than 1048576 bytes", "raise the limit"},
		},
		{
			"many files that are giant together",
			Limits{Bytes: 1 << 20},
			[]item{file("a", strings.Repeat("x", 600<<10)), file("b", strings.Repeat("x", 600<<10))},
			[]string{"more than 1048576 bytes"},
		},
		{"a zip bomb", small, []item{file("a", strings.Repeat("\x00", 900<<10))}, []string{"zip bomb", "raise the limit"}},
	} {
		t.Run(c.idea, func(t *testing.T) {
			l := layer(t, c.items...)
			_, err := Read(t.Context(), []Layer{l}, c.limits)
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			for _, want := range append(c.want, "layer "+l.Name) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if len(err.Error()) > 700 {
				t.Errorf("a message of %d bytes: %s", len(err.Error()), err)
			}
		})
	}
}

// A sparse file claims 4 EiB and occupies one kilobyte, in the old GNU format, whose header says where the data is
// and how large the file is. File capabilities and the setuid bit are kept, since programs need them; instructions to
// the guest's overlayfs, and attributes of the host that built the image, are dropped.
func TestModesAndAttributes(t *testing.T) {
	h := file("bin/ping", "#!ping")
	h.Mode, h.PAXRecords = 0o4755, map[string]string{}
	for _, name := range []string{
		"security.capability", "user.mime_type", "user.overlay.opaque", "trusted.overlay.opaque", "security.selinux",
	} {
		h.PAXRecords[paxXattr+name] = "y"
	}
	n, err := newNode(&h.Header, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"security.capability": "y", "user.mime_type": "y"}; n.mode != 0o4755 ||
		!maps.Equal(n.xattrs, want) {
		t.Errorf("mode %o with attributes %v, want 4755 with %v", n.mode, n.xattrs, want)
	}
}

func TestSparseFilesCountInFull(t *testing.T) {
	data := archive(t, item{tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 1, Format: tar.FormatGNU}, "x"})
	const kind, sum, sparse, realSize = 156, 148, 386, 483
	data[kind] = tar.TypeGNUSparse
	copy(data[sparse:], "00000000000\x0000000000001\x00")
	copy(data[realSize:], []byte{0x80, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0})
	copy(data[sum:], "        ")
	total := 0
	for _, b := range data[:512] {
		total += int(b)
	}
	copy(data[sum:], fmt.Sprintf("%06o\x00 ", total))
	_, err := Read(t.Context(), []Layer{{Name: "sha256:1", Open: opener(data)}}, Limits{})
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "more than 10737418240 bytes") {
		t.Fatalf("got %v", err)
	}
}

func TestDamagedLayersAreRefused(t *testing.T) {
	good := layer(t, file("a", strings.Repeat("hello", 9000)))
	blob, err := good.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(blob)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)-6] ^= 0xff // in the trailing checksum
	for _, c := range []struct {
		idea  string
		layer Layer
		want  string
	}{
		{"missing", Layer{Name: good.Name, Open: func() (io.ReadCloser, error) { return nil, fs.ErrNotExist }}, "is missing"},
		{"cut off", Layer{Name: good.Name, Open: opener(data[:len(data)/2])}, "unexpected EOF"},
		{"a flipped bit", Layer{Name: good.Name, Open: opener(flipped)}, "cannot be uncompressed"},
		{
			"another layer's content",
			Layer{Name: good.Name, DiffID: layer(t, file("b", "")).DiffID, Open: good.Open},
			"uncompressed digest is",
		},
		{"no archive", Layer{Name: good.Name, Open: opener(bytes.Repeat([]byte("no tar"), 500))}, "is not a tar archive"},
		{"0 bytes", Layer{Name: good.Name, DiffID: good.DiffID, Open: opener(nil)}, "uncompressed digest is"},
		{"nothing but a gzip header", Layer{Name: good.Name, Open: opener([]byte{0x1f, 0x8b, 8})}, "cannot be uncompressed"},
	} {
		t.Run(c.idea, func(t *testing.T) {
			_, err := Read(t.Context(), []Layer{c.layer}, Limits{})
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			for _, want := range []string{c.want, good.Name, "push it again"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestReadEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, []Layer{layer(t, file("a", "1"))}, Limits{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// Whatever the bytes of a layer are, reading and writing it results in a disk or an error.
func FuzzLayer(f *testing.F) {
	f.Add(archive(f, dir("d"), file("d/a", "1"), hardlink("b", "d/a"), symlink("c", "d")))
	f.Add(archive(f, file("d/.wh..wh..opq", ""), file(".wh.a", ""), device("dev/x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		base := layer(t, file("d/a", "1"), symlink("c", "d"))
		img, err := Read(t.Context(), []Layer{base, {Name: "fuzz", Open: opener(data)}},
			Limits{Bytes: 1 << 20, Entries: 1000, MetadataBytes: 1 << 20})
		if err != nil {
			return
		}
		if _, err := img.Tar(t.Context(), io.Discard); err != nil && !errors.Is(err, errTooMuch) {
			t.Errorf("read but not written: %v", err)
		}
		if most := freeWork + (workPerEntry+20)*img.tree.entries; img.tree.work > most {
			t.Errorf("%d pieces of work for %d entries", img.tree.work, img.tree.entries)
		}
	})
}
