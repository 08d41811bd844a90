package pipeline

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// jsonLine encodes a value as JSON, without a newline and without escapes for HTML.
func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), newline), nil
}

// seconds formats a time as seconds since 1970 with nine decimals.
func seconds(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// date is the field of a record that holds its time.
type date struct {
	key, format string
}

func newDate(s *section, otherwise string) date {
	d := date{s.text("json_date_key", otherwise), s.oneOf("json_date_format", "double", "double", "epoch", "epoch_ms",
		"iso8601", "java_sql_timestamp")}
	if strings.EqualFold(d.key, "false") {
		d.key = ""
	}
	return d
}

func (d date) value(t time.Time) any {
	switch d.format {
	case "epoch":
		return t.Unix()
	case "epoch_ms":
		return t.UnixMilli()
	case "iso8601":
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	case "java_sql_timestamp":
		return t.UTC().Format("2006-01-02 15:04:05.000000")
	}
	return json.Number(fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000))
}

// with returns a record's fields and its time.
func (d date) with(r *Record) map[string]any {
	if d.key == "" {
		return r.Fields
	}
	out := maps.Clone(r.Fields)
	out[d.key] = d.value(r.Time)
	return out
}

// encodeJSON encodes records as a list, one per line, or concatenated.
func encodeJSON(records []*Record, format string, d date) ([]byte, error) {
	var b bytes.Buffer
	for i, r := range records {
		line, err := jsonLine(d.with(r))
		if err != nil {
			return nil, err
		}
		switch {
		case format == "json" && i == 0:
			b.WriteByte('[')
		case format == "json":
			b.WriteByte(',')
		}
		b.Write(line)
		if format == "json_lines" {
			b.WriteByte('\n')
		}
	}
	if format == "json" {
		b.WriteByte(']')
	}
	return b.Bytes(), nil
}

// printed formats records as Fluent Bit prints them, but with values as JSON.
func printed(records []*Record) ([]byte, error) {
	var b bytes.Buffer
	for i, r := range records {
		line, err := jsonLine(r.Fields)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "[%d] %s: [[%s, {}], %s]\n", i, r.Tag, seconds(r.Time), line)
	}
	return b.Bytes(), nil
}

// keyValues formats a record as key=value, quoted where necessary.
func keyValues(fields map[string]any, keys []string) []byte {
	var b bytes.Buffer
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(' ')
		}
		value := asText(fields[key])
		if strings.ContainsAny(value, " \"=\n\t") || value == "" {
			value = strconv.Quote(value)
		}
		b.WriteString(key + "=" + value)
	}
	return b.Bytes()
}

var contentTypes = map[string]string{
	"json": "application/json", "json_stream": "application/json", "json_lines": "application/x-ndjson",
}

// http configures an output that posts records as JSON.
func (o *Output) http(s *section) {
	e, uri := o.server(s, 80), s.uri("uri", "/")
	format := s.oneOf("format", "msgpack", "json", "json_lines", "json_stream", "msgpack")
	if format == "msgpack" {
		s.fail("Format is missing or msgpack: use json, json_lines or json_stream")
	}
	d := newDate(s, "date")
	e.compress = s.oneOf("compress", "", "", "gzip")
	tagHeader := s.text("header_tag", "")
	o.encode = func(records []*Record) (all []Delivery, err error) {
		groups := []group{{records: records}}
		if tagHeader != "" {
			groups = byTag(records)
		}
		for _, g := range groups {
			body, err := encodeJSON(g.records, format, d)
			if err != nil {
				return nil, err
			}
			p := e.post(uri, contentTypes[format], body, len(g.records))
			if p.Of = g.of; tagHeader != "" {
				p.Header.Set(tagHeader, g.records[0].Tag)
			}
			all = append(all, p)
		}
		return all, nil
	}
}

// group is some of the records, with their indexes; without them it is all records.
type group struct {
	records []*Record
	of      []int
}

// byTag groups records by tag, in the order of each tag's first record.
func byTag(records []*Record) (groups []group) {
	at := map[string]int{}
	for n, r := range records {
		i, ok := at[r.Tag]
		if !ok {
			i = len(groups)
			at[r.Tag], groups = i, append(groups, group{})
		}
		groups[i].records, groups[i].of = append(groups[i].records, r), append(groups[i].of, n)
	}
	return groups
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // a buffer never fails
	_ = w.Close()
	return out.Bytes()
}
