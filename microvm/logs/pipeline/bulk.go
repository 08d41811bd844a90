package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// bulk configures an output to the bulk API of Elasticsearch and OpenSearch.
func (o *Output) bulk(s *section) {
	e := o.server(s, 9200)
	b := bulkLines{
		index: s.text("index", "fluent-bit"), kind: s.text("type", "_doc"), tagKey: s.text("tag_key", "_flb-key"),
		timeKey: s.text("time_key", "@timestamp"), daily: s.on("logstash_format", false), tag: s.on("include_tag_key", false),
		id: s.on("generate_id", false), untyped: s.on("suppress_type_name", false), dots: s.on("replace_dots", false),
		operation:  s.oneOf("write_operation", "create", "create", "index"),
		timeFormat: s.layout("Time_Key_Format", s.text("time_key_format", "%Y-%m-%dT%H:%M:%S.%LZ")),
		dateFormat: s.layout("Logstash_DateFormat", s.text("logstash_dateformat", "%Y.%m.%d")),
	}
	s.on("aws_auth", false)
	s.on("time_key_nanos", false)
	// without AWS_Auth they have no effect
	s.ignore("aws_region", "aws_service_name", "aws_role_arn", "aws_sts_endpoint", "aws_external_id", "aws_profile")
	if prefix := s.text("logstash_prefix", "logstash"); b.daily {
		b.index = prefix + "-"
	}
	if key := s.text("logstash_prefix_key", ""); key != "" {
		b.prefixKey = s.accessor("Logstash_Prefix_Key", key)
	}
	e.compress = s.oneOf("compress", "", "", "gzip")
	uri := strings.TrimSuffix(s.uri("path", "/"), "/") + "/_bulk"
	if through := s.text("pipeline", ""); through != "" {
		uri += "?pipeline=" + url.QueryEscape(through)
	}
	o.answer = bulkAnswer
	o.encode = func(records []*Record) ([]Delivery, error) {
		body, err := b.encode(records)
		return []Delivery{e.post(uri, "application/x-ndjson", body, len(records))}, err
	}
}

// bulkLines converts records to documents.
type bulkLines struct {
	index, kind, tagKey, timeKey, operation string
	timeFormat, dateFormat                  string // Go layouts
	daily, tag, id, untyped, dots           bool
	prefixKey                               accessor
}

func (b *bulkLines) encode(records []*Record) ([]byte, error) {
	var out bytes.Buffer
	for _, r := range records {
		fields := r.Fields
		if b.dots {
			fields = withoutDots(fields)
		}
		document := make(map[string]any, len(fields)+2)
		document[b.timeKey] = r.Time.UTC().Format(b.timeFormat)
		if b.tag {
			document[b.tagKey] = r.Tag
		}
		for k, v := range fields {
			if k != b.timeKey {
				document[k] = v
			}
		}
		line, err := jsonLine(document)
		if err != nil {
			return nil, err
		}
		about := map[string]any{"_index": b.indexOf(r)}
		if !b.untyped {
			about["_type"] = b.kind
		}
		if b.id {
			about["_id"] = fmt.Sprintf("%x", sha256.Sum256(append(fmt.Appendf(nil, "%s %d ", r.Tag, r.Time.UnixNano()),
				line...)))[:32]
		}
		act, err := jsonLine(map[string]any{b.operation: about})
		if err != nil {
			return nil, err
		}
		for _, part := range [][]byte{act, newline, line, newline} {
			out.Write(part)
		}
	}
	return out.Bytes(), nil
}

func (b *bulkLines) indexOf(r *Record) string {
	if !b.daily {
		return b.index
	}
	prefix := b.index
	if b.prefixKey != nil {
		if v, ok := b.prefixKey.find(r.Fields); ok {
			prefix = strings.ToLower(asText(v)) + "-"
		}
	}
	return prefix + r.Time.UTC().Format(b.dateFormat)
}

// withoutDots replaces dots in keys by underscores, in inner maps too.
func withoutDots(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if inner, ok := v.(map[string]any); ok {
			v = withoutDots(inner)
		}
		out[strings.ReplaceAll(k, ".", "_")] = v
	}
	return out
}

// bulkAnswer returns which documents to send again, and how many are refused for good. A document that already exists
// was accepted earlier.
func bulkAnswer(body []byte, records int) (again []int, rejected int, why string) {
	var said struct {
		Errors bool `json:"errors"`
		Items  []map[string]struct {
			Status int `json:"status"`
			Error  struct {
				Type string `json:"type"`
			} `json:"error"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &said); err != nil || !said.Errors {
		return nil, 0, ""
	}
	for i, item := range said.Items {
		for _, result := range item {
			switch {
			case i >= records || result.Status < 300 || result.Status == 409:
				continue
			case result.Status == 429 || result.Status >= 500:
				again = append(again, i)
			default:
				rejected++
			}
			if why == "" {
				why = fmt.Sprintf("%d %.80s", result.Status, result.Error.Type)
			}
		}
	}
	return again, rejected, why
}
