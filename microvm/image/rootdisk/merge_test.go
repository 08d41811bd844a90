package rootdisk

import (
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestLayersAreMerged(t *testing.T) {
	for _, c := range []struct {
		idea   string
		layers [][]item
		want   string
	}{
		{"a file is replaced", [][]item{{file("a", "old")}, {file("a", "new")}}, "a: new"},
		{"parents need no entries", [][]item{{file("usr/bin/tool", "x")}}, "usr/\nusr/bin/\nusr/bin/tool: x"},
		{"the last of two entries of a layer counts", [][]item{{file("a", "1"), file("a", "2")}}, "a: 2"},
		{"absolute names start at the image's root", [][]item{{file("/etc/motd", "hi")}}, "etc/\netc/motd: hi"},
		{
			"a directory over a directory keeps what is in it",
			[][]item{{dir("d"), file("d/a", "1")}, {dir("d")}},
			"d/\nd/a: 1",
		},
		{"a file over a directory takes all of it away", [][]item{{dir("d"), file("d/a", "1")}, {file("d", "f")}}, "d: f"},
		{"a whiteout hides a lower file", [][]item{{file("a", "1"), file("b", "2")}, {file(".wh.a", "")}}, "b: 2"},
		{"a whiteout hides a lower directory", [][]item{{file("d/e/f", "1")}, {file(".wh.d", "")}}, ""},
		{
			"a whiteout spares its own layer, before",
			[][]item{{file("d/old", "1")}, {file("d/new", "2"), file(".wh.d", "")}},
			"d/\nd/new: 2",
		},
		{
			"a whiteout spares its own layer, after",
			[][]item{{file("d/old", "1")}, {file(".wh.d", ""), file("d/new", "2")}},
			"d/\nd/new: 2",
		},
		{"a whiteout of nothing does nothing", [][]item{{file("a", "1")}, {file(".wh.zzz", "")}}, "a: 1"},
		{
			"an opaque directory hides all below",
			[][]item{{file("d/a", "1"), file("d/e/b", "2")}, {file("d/new", "3"), file("d/.wh..wh..opq", "")}},
			"d/\nd/new: 3",
		},
		{
			"an entry for the root leaves hidden what is hidden",
			[][]item{{file("a", "1")}, {file(".wh..wh..opq", ""), dir("./"), file("b", "2")}},
			"b: 2",
		},
		{"what aufs kept for itself is left out", [][]item{{file(".wh..wh.plnk", ""), file("a", "1")}}, "a: 1"},
		{
			"a path through a symbolic link lands behind it",
			[][]item{{dir("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/so", "x")}},
			"lib -> usr/lib\nusr/\nusr/lib/\nusr/lib/so: x",
		},
		{
			"a directory takes the place of a symbolic link",
			[][]item{{dir("usr/lib"), symlink("lib", "usr/lib")}, {dir("lib"), file("lib/so", "x")}},
			"lib/\nlib/so: x\nusr/\nusr/lib/",
		},
		{
			"a symbolic link out of the image ends at its root",
			[][]item{{symlink("a", "../../../etc"), file("a/x", "1")}},
			"a -> ../../../etc\netc/\netc/x: 1",
		},
		{"a dangling symbolic link is kept", [][]item{{symlink("a", "/proc/self/fd")}}, "a -> /proc/self/fd"},
		{"a hard link to a lower layer", [][]item{{file("a", "1")}, {hardlink("z", "a")}}, "a: 1\nz = a"},
		{
			"a hard link outlives the name it was made from",
			[][]item{{file("a", "1"), hardlink("b", "a")}, {file(".wh.a", "")}},
			"b: 1",
		},
		{
			"a hard link keeps the content of its time",
			[][]item{{file("a", "1"), hardlink("b", "a")}, {file("a", "2")}},
			"a: 2\nb: 1",
		},
		{"a device below /dev is left out", [][]item{{device("dev/vda"), file("a", "1")}}, "a: 1"},
		{"a name that is not UTF-8", [][]item{{file("caf\xe9", "1")}}, "caf\xe9: 1"},
	} {
		t.Run(c.idea, func(t *testing.T) {
			var layers []Layer
			for _, items := range c.layers {
				layers = append(layers, layer(t, items...))
			}
			if got := listing(t, layers...); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestCompressionIsDetected(t *testing.T) {
	plain := archive(t, file("a", strings.Repeat("x", 5000)))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"none": plain, "gzip": gzipped(t, plain), "zstd": z.EncodeAll(plain, nil)} {
		if got := listing(t, Layer{Name: name, Open: opener(data)}); got != "a: "+strings.Repeat("x", 5000) {
			t.Errorf("%s: got %.80s", name, got)
		}
	}
}
