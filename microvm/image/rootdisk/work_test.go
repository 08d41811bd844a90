package rootdisk

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
)

// workOf returns how much work it takes to read and write an image, and how many entries it has.
func workOf(t testing.TB, layers ...Layer) (work, entries int) {
	t.Helper()
	img, err := Read(t.Context(), layers, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := img.Tar(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	return img.tree.work, img.tree.entries
}

func times(n int, f func(i int) item) []item {
	all := make([]item, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

// For images that are made to be slow, ten times the entries cause ten times the work.
func TestWorkIsLinear(t *testing.T) {
	files := func(n int) []item {
		return times(n, func(i int) item { return file(fmt.Sprintf("d/%d/f%d", i%10, i), "") })
	}
	for idea, layers := range map[string]func(n int) [][]item{
		"opaque whiteouts of one directory": func(n int) [][]item {
			return [][]item{files(n), times(n, func(int) item { return file("d/.wh..wh..opq", "") })}
		},
		"opaque whiteouts of the root, over what their own layer puts": func(n int) [][]item {
			return [][]item{files(n), append(files(n), times(n, func(int) item { return file(".wh..wh..opq", "") })...)}
		},
		"opaque whiteouts of a directory that its own layer fills": func(n int) [][]item {
			own := times(n, func(i int) item { return file(fmt.Sprintf("d/f%d", i), "") })
			return [][]item{files(n), append(own, times(n, func(int) item { return file("d/.wh..wh..opq", "") })...)}
		},
		"whiteouts of a directory that its own layer fills": func(n int) [][]item {
			return [][]item{files(n), append(files(n), times(n, func(int) item { return file(".wh.d", "") })...)}
		},
		"whiteouts and new files, in turns": func(n int) [][]item {
			return [][]item{files(n), slices.Concat(times(n, func(i int) item { return file("d/.wh..wh..opq", "") }), files(n))}
		},
		"opaque whiteouts in each layer": func(n int) [][]item {
			all := [][]item{files(n)}
			for i := range 50 {
				all = append(all, []item{file("d/.wh..wh..opq", ""), file(fmt.Sprintf("d/0/g%d", i), "")})
			}
			return all
		},
	} {
		t.Run(idea, func(t *testing.T) {
			measure := func(n int) float64 {
				var all []Layer
				for _, items := range layers(n) {
					all = append(all, layer(t, items...))
				}
				work, entries := workOf(t, all...)
				return float64(work) / float64(entries)
			}
			if few, many := measure(200), measure(2000); many > 1.5*few || many > 20 {
				t.Errorf("%.1f pieces of work for each of a few entries, %.1f for each of ten times as many", few, many)
			}
		})
	}
}

// Symbolic links that lead up and down through each other give short names long paths. Such an image is rejected
// before it has cost much.
func TestZigzagLinksAreRefused(t *testing.T) {
	items := []item{dir("d")}
	for i := range maxLinks - 1 {
		items = append(items, symlink(fmt.Sprintf("l%d", i), strings.Repeat("d/../", 800)+fmt.Sprintf("l%d", i+1)))
	}
	items = append(items, dir(fmt.Sprintf("l%d", maxLinks-1)))
	items = append(items, times(1000, func(i int) item { return file(fmt.Sprintf("l0/f%d", i), "") })...)
	_, err := Read(t.Context(), []Layer{layer(t, items...)}, Limits{})
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "counted through symbolic links") ||
		!strings.Contains(err.Error(), `entry "l0/f`) {
		t.Fatalf("got %v", err)
	}
	tree := newTree(Limits{}.OrDefault())
	for seq, i := range items {
		if err = tree.add(&i.Header, 0, seq); err != nil {
			break
		}
	}
	if most := freeWork + workPerEntry*tree.entries + 1; err == nil || tree.work > most {
		t.Errorf("%d pieces of work, at most %d are allowed: %v", tree.work, most, err)
	}
}

// Short names for long paths do not make a tar that is a thousand times as long as the layer.
func TestPathsThroughLinksAreLimited(t *testing.T) {
	deep := strings.Repeat("d/", 1500) + "d"
	items := append([]item{dir(deep), symlink("s", deep)},
		times(400, func(i int) item { return file(fmt.Sprintf("s/f%d", i), "") })...)
	img, err := Read(t.Context(), []Layer{layer(t, items...)}, Limits{MetadataBytes: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var out counter
	out.r = strings.NewReader("")
	if _, err := img.Tar(t.Context(), &written{&out.n}); !errors.Is(err, errTooMuch) {
		t.Errorf("got %v", err)
	}
	if out.n > 2<<20 {
		t.Errorf("%d bytes were written", out.n)
	}
}

type written struct{ n *int64 }

func (w *written) Write(p []byte) (int, error) {
	*w.n += int64(len(p))
	return len(p), nil
}

// slow merges the layers of an image without links, entry by entry as in the specification: a whiteout hides a path
// if a lower layer put it there, and a directory only if this layer has put nothing into it.
func slow(layers [][]item) string {
	type at struct {
		layer   int
		dir     bool
		content string
	}
	all := map[string]at{}
	below := func(p, dir string) bool { return dir == "." || strings.HasPrefix(p, dir+"/") }
	hide := func(layer int, hidden func(p string) bool) {
		paths := slices.Sorted(maps.Keys(all))
		slices.Reverse(paths) // children before their parents
		for _, p := range paths {
			empty := !slices.ContainsFunc(paths, func(other string) bool { _, is := all[other]; return is && below(other, p) })
			if hidden(p) && all[p].layer < layer && (!all[p].dir || empty) {
				delete(all, p)
			}
		}
	}
	for n, items := range layers {
		for _, i := range items {
			p := path.Clean(i.Name)
			parent, base := path.Split(p)
			parent = path.Clean(parent)
			for q := parent; q != "."; q = path.Dir(q) {
				if !all[q].dir {
					all[q] = at{n, true, ""}
				}
			}
			name, is := strings.CutPrefix(base, whiteout)
			switch old := all[p]; {
			case is && name == opaqueWhiteout:
				hide(n, func(q string) bool { return below(q, parent) })
			case is:
				hide(n, func(q string) bool { target := path.Join(parent, name); return q == target || below(q, target) })
			default:
				if old.dir && i.Typeflag == '0' {
					maps.DeleteFunc(all, func(q string, _ at) bool { return below(q, p) })
				}
				all[p] = at{n, i.Typeflag == '5', i.content}
			}
		}
	}
	var lines []string
	for p, a := range all {
		if a.dir {
			lines = append(lines, p+"/")
		} else {
			lines = append(lines, p+": "+a.content)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// layersOf makes layers of bytes: each byte is an entry of a small tree, or the end of a layer.
func layersOf(data []byte) [][]item {
	names := []string{"a", "b", "a/c", "a/d", "b/c", "a/c/e", "a/c/f", "b/c/e"}
	all := [][]item{nil}
	for n, b := range data {
		p := names[int(b)%len(names)]
		var i item
		switch b / 8 % 8 {
		case 0:
			all = append(all, nil)
			continue
		case 1, 2:
			i = dir(p)
		case 3:
			i = file(path.Join(path.Dir(p), whiteout+path.Base(p)), "")
		case 4:
			i = file(path.Join(path.Dir(p), whiteout+opaqueWhiteout), "")
		default:
			i = file(p+"/"+string('x'+b/64%3), fmt.Sprint(n)) // a leaf: no path leads through it
		}
		all[len(all)-1] = append(all[len(all)-1], i)
	}
	return all
}

// agrees checks that an image equals slow's result.
func agrees(t *testing.T, layers [][]item) {
	t.Helper()
	var all []Layer
	for _, items := range layers {
		all = append(all, layer(t, items...))
	}
	if got, want := listing(t, all...), slow(layers); got != want {
		for n, items := range layers {
			for _, i := range items {
				t.Logf("layer %d: %c %s", n, i.Typeflag, i.Name)
			}
		}
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	if work, entries := workOf(t, all...); work > 20*(entries+1) {
		t.Errorf("%d pieces of work for %d entries", work, entries)
	}
}

func TestRandomLayersFollowTheSpecification(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 22))
		data := make([]byte, 1+random.IntN(40))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		agrees(t, layersOf(data))
	}
}

func FuzzLayers(f *testing.F) {
	f.Add([]byte("opaque and named whiteouts, files and directories"))
	f.Fuzz(func(t *testing.T, data []byte) { agrees(t, layersOf(data[:min(len(data), 300)])) })
}
