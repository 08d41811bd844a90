package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonLine is a value as JSON, without a line end and without HTML's escapes.
func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), newline), nil
}

// seconds since 1970 with nine digits.
func seconds(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// date is the time as a value of the record.
type date struct {
	key, format string
}

func newDate(s *section, otherwise string) (d date, err error) {
	if d.key = s.text("json_date_key", otherwise); strings.EqualFold(d.key, "false") {
		d.key = ""
	}
	d.format, err = s.oneOf("json_date_format", "double", "double", "epoch", "epoch_ms", "iso8601", "java_sql_timestamp")
	return d, err
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

// with is a record's values and its time.
func (d date) with(r *Record) map[string]any {
	if d.key == "" {
		return r.Fields
	}
	out := maps.Clone(r.Fields)
	out[d.key] = d.value(r.Time)
	return out
}

// encodeJSON writes records as a list, a line each, or one after the other.
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

// printed are records as Fluent Bit prints them, but for values that are JSON.
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

// keyValues is a record as key=value, with quotes where they are needed.
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

// validText is a text with what is no UTF-8 replaced.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "�")
}
