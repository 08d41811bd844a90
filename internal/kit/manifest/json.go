package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// lines counts the lines that are read through it.
type lines struct {
	r      io.Reader
	read   int64
	before int     // lines that end before the first of ends
	ends   []int64 // offsets of line ends that may still be looked up
	given  int64   // end of the last object passed to f
}

// errLarge is the error for an object that is not read to its end because it would fill the memory.
var errLarge = fmt.Errorf("an object is larger than %d MiB, which no Kubernetes object is", mostObject>>20)

func (l *lines) Read(p []byte) (int, error) {
	if l.read-l.given > 2*mostObject { // part of it is read ahead
		return 0, errLarge
	}
	n, err := l.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// at returns the line of an offset. Later calls must not pass an earlier offset.
func (l *lines) at(offset int64) int {
	i := sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
	l.before += i
	l.ends = l.ends[i:]
	return l.before + 1
}

// eachJSON reads objects one by one, and the items of lists as they arrive.
func eachJSON(in *bufio.Reader, f func(Item) error) error {
	count := &lines{r: in}
	d := json.NewDecoder(count)
	for d.More() {
		if err := jsonObject(d, count, f); err != nil {
			return jsonTrouble(d, count, err)
		}
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return jsonTrouble(d, count, err)
	}
	return nil
}

// errGiven marks an error of f, which already says where it occurred.
type errGiven struct{ error }

func (e errGiven) Unwrap() error { return e.error }

func jsonTrouble(d *json.Decoder, count *lines, err error) error {
	var given errGiven
	switch {
	case errors.As(err, &given):
		return given.error
	case errors.Is(err, errLarge):
		return fmt.Errorf("line %d: %w", count.at(d.InputOffset()), err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("line %d: the file ends in the middle of an object; write it again, to the end",
			count.at(count.read))
	}
	return fmt.Errorf("line %d: not JSON: %w", count.at(d.InputOffset()), err)
}

func jsonObject(d *json.Decoder, count *lines, f func(Item) error) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if err == nil {
			err = fmt.Errorf("want an object, got %v", t)
		}
		return err
	}
	line, fields, list := count.at(d.InputOffset()), map[string]json.RawMessage{}, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == "items" && !list {
			list = true
			if err := jsonItems(d, count, f); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if name, ok := key.(string); ok {
			fields[name] = value
		}
	}
	if _, err := d.Token(); err != nil || list {
		return err
	}
	count.given = d.InputOffset()
	whole, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return given(f(Item{Line: line, JSON: whole}))
}

func jsonItems(d *json.Decoder, count *lines, f func(Item) error) error {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		if err == nil {
			err = fmt.Errorf("items: want a list, got %v", t)
		}
		return err
	}
	for d.More() {
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		if len(item) > mostObject {
			return errLarge
		}
		count.given = d.InputOffset()
		if err := given(f(Item{Line: count.at(d.InputOffset() - int64(len(item)) + 1), JSON: item})); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func given(err error) error {
	if err == nil {
		return nil
	}
	return errGiven{err}
}

// inlineList returns the items of a list that was written in one piece, and whether the item is a list.
func inlineList(item Item) ([]Item, bool) {
	if !bytes.Contains(item.JSON, []byte(`"items"`)) {
		return nil, false
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(item.JSON, &list) != nil || !strings.HasSuffix(list.Kind, "List") {
		return nil, false // decoding it as something else says what is wrong with it
	}
	out := make([]Item, len(list.Items))
	for i, raw := range list.Items {
		out[i] = Item{Line: item.Line, JSON: raw}
	}
	return out, true
}
