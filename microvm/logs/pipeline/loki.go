package pipeline

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// label is a label of a Loki stream, with a fixed value or one from the record.
type label struct {
	name, value string
	from        accessor
}

var notInLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// labelList parses "a=b, c=$d['e'], $f['g']".
func labelList(s *section, key, otherwise string) (all []label) {
	for _, one := range list(s.text(key, otherwise)) {
		l := label{}
		name, value, named := strings.Cut(one, "=")
		if !named {
			name, value = "", one
		}
		if value = strings.TrimSpace(value); strings.HasPrefix(value, "$") || !named {
			l.from = s.accessor(key, value)
			if !named {
				name = strings.Join(l.from, "_")
			}
		}
		l.name, l.value = notInLabel.ReplaceAllString(strings.TrimSpace(name), "_"), value
		all = append(all, l)
	}
	return all
}

// loki configures an output to Loki's push API.
func (o *Output) loki(s *section) {
	e, uri := o.server(s, 3100), s.uri("uri", "/loki/api/v1/push")
	if tenant := s.text("tenant_id", ""); tenant != "" {
		e.header.Set("X-Scope-OrgID", tenant)
	}
	if token := s.text("bearer_token", ""); token != "" {
		e.header.Set("Authorization", "Bearer "+token)
	}
	labels, keys := labelList(s, "labels", "job=fluent-bit"), labelList(s, "label_keys", "")
	l := lokiLines{labels: append(labels, keys...), taken: keys}
	for _, text := range list(s.text("remove_keys", "")) {
		l.remove = append(l.remove, s.accessor("remove_keys", text))
	}
	l.keyValue = s.oneOf("line_format", "json", "json", "key_value") == "key_value"
	l.single = s.oneOf("drop_single_key", "off", "off", "false", "on", "true", "raw")
	l.auto = s.on("auto_kubernetes_labels", false)
	o.encode = func(records []*Record) ([]Delivery, error) {
		body, err := l.encode(records)
		return []Delivery{e.post(uri, "application/json", body, len(records))}, err
	}
}

// lokiLines converts records to streams.
type lokiLines struct {
	labels   []label
	taken    []label // their values are removed from the record
	remove   []accessor
	keyValue bool
	single   string
	auto     bool
}

type lokiStream struct {
	Stream map[string]string `json:"stream"`
	Values [][2]string       `json:"values"`
}

func (l *lokiLines) encode(records []*Record) ([]byte, error) {
	var streams []*lokiStream
	at := map[string]*lokiStream{}
	for _, r := range records {
		named := map[string]string{}
		for _, label := range l.labels {
			if label.from == nil {
				named[label.name] = label.value
			} else if v, ok := label.from.find(r.Fields); ok {
				named[label.name] = asText(v)
			}
		}
		if l.auto {
			for k, v := range r.Source.Labels {
				named[notInLabel.ReplaceAllString(k, "_")] = v
			}
		}
		line, err := l.line(r)
		if err != nil {
			return nil, err
		}
		key, err := json.Marshal(named)
		if err != nil {
			return nil, err
		}
		stream := at[string(key)]
		if stream == nil {
			stream = &lokiStream{Stream: named}
			at[string(key)], streams = stream, append(streams, stream)
		}
		text := strings.ToValidUTF8(string(line), "\uFFFD")
		stream.Values = append(stream.Values, [2]string{strconv.FormatInt(r.Time.UnixNano(), 10), text})
	}
	return jsonLine(map[string]any{"streams": streams})
}

func (l *lokiLines) line(r *Record) ([]byte, error) {
	fields := r.Fields
	if len(l.remove)+len(l.taken) > 0 {
		fields = runtime.DeepCopyJSON(fields)
		for _, a := range l.remove {
			a.remove(fields)
		}
		for _, label := range l.taken {
			label.from.remove(fields)
		}
	}
	keys := slices.Sorted(maps.Keys(fields))
	if len(keys) == 1 && l.single != "off" && l.single != "false" {
		v := fields[keys[0]]
		if text, ok := v.(string); ok && (l.single == "raw" || l.keyValue) {
			return []byte(text), nil
		}
		return jsonLine(v)
	}
	if l.keyValue {
		return keyValues(fields, keys), nil
	}
	return jsonLine(fields)
}
