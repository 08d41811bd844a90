// Package manifest reads Kubernetes objects from text, as people and kubectl write them: YAML documents, JSON, and
// Lists of any length. It reads Lists object by object, so that a dump of a large cluster takes no more memory than
// its largest object.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// mostObject is the size of the largest object that is read: etcd accepts none above 1.5 MB, and YAML needs more room
// than JSON.
const mostObject = 16 << 20

// Item is one object as written.
type Item struct {
	Line int    // in the file, from 1
	JSON []byte // the object
	Text []byte // as it was written, beginning at Line; nil if it was JSON
}

// Each calls f for every object of a text, in order, and for each object of a List. The error names the line.
func Each(r io.Reader, f func(Item) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch head = bytes.TrimSpace(head); {
	case len(head) == 0:
		return errors.New("it is empty; want Kubernetes objects as kubectl get -o yaml writes them")
	case head[0] == '{':
		return eachJSON(in, f)
	}
	y := &yamlStream{f: f}
	return y.read(in)
}

// yamlStream splits YAML into documents, and a List into its items, by lines alone: kubectl begins each item with a
// dash in the column of its list.
type yamlStream struct {
	f    func(Item) error
	line int

	text  bytes.Buffer // of the document or item so far
	begin int          // its first line, 0 = there is none
	items bool         // inside the items of a list
	dash  int          // the column of their dashes, -1 = not known yet
	some  bool         // the document had items
	since int          // line of "items:"
}

func (y *yamlStream) read(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 && !errors.Is(err, bufio.ErrBufferFull) {
			y.line++
			if err := y.take(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a line longer than the buffer
			long, err := y.longLine(in, line)
			if err != nil {
				return err
			}
			y.line++
			if err := y.take(long); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return y.endDocument()
		case err != nil:
			return fmt.Errorf("line %d: %w", y.line+1, err)
		}
	}
}

func (y *yamlStream) longLine(in *bufio.Reader, start []byte) ([]byte, error) {
	long := bytes.Clone(start)
	for {
		more, err := in.ReadSlice('\n')
		long = append(long, more...)
		switch {
		case len(long) > mostObject:
			return nil, fmt.Errorf("line %d: it is longer than %d MiB, which no Kubernetes object is", y.line+1, mostObject>>20)
		case err == nil, errors.Is(err, io.EOF):
			return long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d: %w", y.line+1, err)
		}
	}
}

func (y *yamlStream) take(line []byte) error {
	bare := strings.TrimRight(string(line[:min(len(line), 128)]), " \r\n")
	switch {
	case bare == "---" || strings.HasPrefix(bare, "--- "):
		return y.endDocument()
	case bare == "items:":
		if err := y.flush(true); err != nil {
			return err
		}
		y.items, y.some, y.dash, y.since = true, true, -1, y.line
		return nil
	case y.items && bare != "":
		column := len(bare) - len(strings.TrimLeft(bare, " "))
		isDash := strings.HasPrefix(bare[column:], "- ") || bare[column:] == "-"
		switch {
		case isDash && (y.dash < 0 || column == y.dash):
			y.dash = column
			if err := y.flush(false); err != nil {
				return err
			}
			line = bytes.Replace(line, []byte("-"), []byte(" "), 1)
		case column == 0 && bare[0] != '#': // fields of a list below its items
			if err := y.flush(false); err != nil {
				return err
			}
			y.items = false
		}
	}
	if y.begin == 0 {
		if bare == "" || bare[0] == '#' {
			return nil
		}
		y.begin = y.line
	}
	if y.text.Len()+len(line) > mostObject {
		return fmt.Errorf("line %d: the object that begins there is larger than %d MiB, which no Kubernetes object is",
			y.begin, mostObject>>20)
	}
	y.text.Write(line)
	return nil
}

// endDocument passes on the last object. A list that ends among its items is incomplete: kubectl writes kind: List
// below them.
func (y *yamlStream) endDocument() error {
	if y.items {
		return fmt.Errorf("line %d: the file ends in the middle of the list that begins in line %d: \"kind: List\" "+
			"should stand below its items; write it again, to the end", y.line, y.since)
	}
	err := y.flush(y.some)
	y.some = false
	return err
}

// flush passes on an object. If frame is set, the text is a list's own fields around its items, which flush drops.
func (y *yamlStream) flush(frame bool) error {
	begin, text := y.begin, bytes.Clone(y.text.Bytes())
	y.text.Reset()
	y.begin = 0
	if begin == 0 {
		return nil
	}
	item, err := itemOf(begin, text)
	if err != nil || frame || item.JSON == nil {
		return err
	}
	if list, ok := inlineList(item); ok {
		for _, one := range list {
			if err := y.f(one); err != nil {
				return err
			}
		}
		return nil
	}
	return y.f(item)
}

// yamlLine matches a line number in the parser's errors.
var yamlLine = regexp.MustCompile(`line (\d+)`)

func itemOf(begin int, text []byte) (Item, error) {
	out, err := yaml.YAMLToJSON(text)
	if err != nil {
		said := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(said); m != nil {
			n, _ := strconv.Atoi(m[1])
			return Item{}, fmt.Errorf("line %d: not YAML: %s", begin+n-1, strings.TrimPrefix(strings.Replace(said, m[0], "", 1),
				": "))
		}
		return Item{}, fmt.Errorf("line %d: not YAML: %s", begin, said)
	}
	if bytes.Equal(out, []byte("null")) {
		return Item{}, nil
	}
	if !bytes.HasPrefix(out, []byte("{")) {
		return Item{}, fmt.Errorf("line %d: want an object with apiVersion and kind, got %.40q", begin, out)
	}
	return Item{Line: begin, JSON: out, Text: text}, nil
}
