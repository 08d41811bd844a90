package manifest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/manifest"
)

const podYAML = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
  - name: c
    image: i
`

const list = `apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      note: |
        items:
        - kind: nothing
    name: a
  spec:
    containers:
    - name: c
- apiVersion: v1
  kind: Pod
  metadata:
    name: b
kind: List
metadata:
  resourceVersion: ""
`

// names returns the names of the objects in a text, with their lines.
func names(text string) (string, error) {
	var out []string
	err := manifest.Each(strings.NewReader(text), func(i manifest.Item) error {
		n, err := i.Name()
		out = append(out, fmt.Sprintf("%s in %d", n, i.Line))
		return err
	})
	return strings.Join(out, ", "), err
}

func TestObjectsAreFoundWithTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		podYAML:                                "Pod shop/web in 1",
		"# first\n---\n" + podYAML + "---\n":   "Pod shop/web in 3",
		podYAML + "---\n" + podYAML:            "Pod shop/web in 1, Pod shop/web in 9",
		list:                                   "Pod a in 3, Pod b in 14",
		strings.ReplaceAll(list, "\n", "\r\n"): "Pod a in 3, Pod b in 14",
		"kind: List\napiVersion: v1\nitems:\n  - {apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n" + podYAML: "",
		"apiVersion: v1\nkind: List\nitems: []\n":                                                 "",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n": "Pod a in 1",
		`{"apiVersion": "v1", "kind": "Pod",` + "\n" + ` "metadata": {"name": "a"}}` + "\n" +
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`: "Pod a in 1, Pod b in 3",
		"{\"apiVersion\": \"v1\",\n \"items\": [\n  {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}},\n  {\"apiVersion\":\"v1\",\n\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}],\n \"kind\": \"List\"}": "Pod a in 3, Pod b in 4",
	} {
		got, err := names(text)
		if strings.HasPrefix(text, "kind: List\napiVersion") { // items last: may be cut off
			if err == nil || !strings.Contains(err.Error(), "kind: List") {
				t.Errorf("%q, %v", got, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("found %q, %v; want %q in\n%s", got, err, want, text)
		}
	}
}

func TestWhatIsWrongIsSaidWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		" \n\n ":                                 "empty",
		list[:strings.Index(list, "kind: List")]: "line 17: the file ends in the middle of the list that begins in line 2",
		strings.Replace(list, "    name: b", "  \tname: b", 1): "line 17: not YAML",
		podYAML + "---\n- 1\n":                                 "line 9: want an object",
		podYAML + "---\nmetadata: {}\n":                        "line 9: an object without apiVersion or kind",
		`{"apiVersion": "v1", "items": [{"kind": "Pod"`:        "line 1: the file ends in the middle",
		"{\"apiVersion\": \"v1\",\n\"kind\": \"Pod\" \"x\"}":   "line 2: not JSON",
		`{"apiVersion": "v1", "items": [` + "\n" + `{"a": "` + strings.Repeat("x", 17<<20) +
			`"}]}`: "line 2: an object is larger than 16 MiB",
		"a: " + strings.Repeat("x",
			17<<20): "line 1: it is longer than 16 MiB",
		"a:\n" + strings.Repeat("- "+strings.Repeat("x", 1022)+"\n",
			17<<10): "line 1: the object that begins there is larger than 16 MiB",
	} {
		if got, err := names(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestObjectsAreReadAsTheirKind(t *testing.T) {
	read := func(text string) (o any, loose, exact error) {
		err := manifest.Each(strings.NewReader(text), func(i manifest.Item) error {
			o, loose = i.Object()
			_, exact = i.Exactly()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return o, loose, exact
	}
	o, loose, exact := read(podYAML)
	if p, ok := o.(*corev1.Pod); !ok || p.Name != "web" || loose != nil || exact != nil {
		t.Errorf("%v %v %v", o, loose, exact)
	}
	_, loose, exact = read(strings.Replace(podYAML, "image", "imgae", 1))
	if loose != nil || exact == nil ||
		exact.Error() != `line 7: Pod shop/web: unknown field "spec.containers[0].imgae"; correct its name or its indentation` {
		t.Errorf("%v, %v", loose, exact)
	}
	if _, loose, _ = read("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n"); !errors.Is(loose,
		manifest.ErrUnknownKind) {
		t.Error(loose)
	}
	if _, loose, _ = read(strings.Replace(podYAML, "name: web", "name: [1]", 1)); loose == nil {
		t.Error("a list is taken as a name")
	}
}

// endless repeats a list item the given number of times.
type endless struct {
	item  []byte
	left  int
	now   *bytes.Reader
	ended bool
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.now.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if e.left > 0 {
		e.left--
		e.now.Reset(e.item)
		return e.now.Read(p)
	}
	if !e.ended {
		e.ended = true
		e.now.Reset([]byte("kind: List\n"))
		return e.now.Read(p)
	}
	return 0, io.EOF
}

// Of an endless object no more is read than the maximum size of an object.
func TestAnObjectWithoutEndDoesNotFillTheMemory(t *testing.T) {
	for _, begin := range []string{
		`{"items": [{"a": "`, `{"kind": "Pod", "a": "`,
		`{"kind": "List", "metadata": {"a": [`,
	} {
		in := &endless{item: bytes.Repeat([]byte("1,"), 1<<19), left: 4096, now: bytes.NewReader([]byte(begin))}
		err := manifest.Each(in, func(manifest.Item) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "line 1: an object is larger than 16 MiB") || in.left < 4096-80 {
			t.Errorf("%s: %v, after %d MiB", begin, err, 4096-in.left)
		}
	}
}

// A dump of half a gigabyte does not fill the memory.
func TestAListIsReadObjectByObject(t *testing.T) {
	item := "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    annotations:\n      note: " +
		strings.Repeat("x", 1<<18) + "\n"
	in := &endless{item: []byte(item), left: 96, now: bytes.NewReader([]byte("items:\n"))}
	n, most := 0, uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := manifest.Each(in, func(manifest.Item) error {
		if n++; n%16 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || n != 96 {
		t.Fatal(n, err)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 12<<20 {
		t.Errorf("24 MiB were read with %d MiB of memory", grown>>20)
	}
}
