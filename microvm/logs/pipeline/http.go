package pipeline

import (
	"bytes"
	"compress/gzip"
)

var contentTypes = map[string]string{"json": "application/json", "json_stream": "application/json", "json_lines": "application/x-ndjson"}

// http posts records as JSON.
func (o *Output) http(s *section) error {
	e, err := o.server(s, 80)
	if err != nil {
		return err
	}
	uri, err := s.uri("uri", "/")
	if err != nil {
		return err
	}
	format, err := s.oneOf("format", "msgpack", "json", "json_lines", "json_stream", "msgpack")
	if err != nil {
		return err
	}
	if format == "msgpack" {
		return s.wrong("Format is missing or msgpack: use json, json_lines or json_stream,")
	}
	d, err := newDate(s, "date")
	if err != nil {
		return err
	}
	compress, err := s.oneOf("compress", "", "", "gzip")
	if err != nil {
		return err
	}
	tagHeader := s.text("header_tag", "")
	o.encode = func(records []*Record) (all []Delivery, err error) {
		groups := [][]*Record{records}
		if tagHeader != "" {
			groups = byTag(records)
		}
		for _, group := range groups {
			body, err := encodeJSON(group, format, d)
			if err != nil {
				return nil, err
			}
			p := e.post(uri, contentTypes[format], body, len(group))
			if tagHeader != "" {
				p.Header.Set(tagHeader, group[0].Tag)
			}
			if compress == "gzip" {
				p.Header.Set("Content-Encoding", "gzip")
				p.Body = zipped(body)
			}
			all = append(all, p)
		}
		return all, nil
	}
	return nil
}

// byTag are records of the same tag together, in the order of their first ones.
func byTag(records []*Record) (groups [][]*Record) {
	at := map[string]int{}
	for _, r := range records {
		i, ok := at[r.Tag]
		if !ok {
			i = len(groups)
			at[r.Tag], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // memory takes everything
	_ = w.Close()
	return out.Bytes()
}
