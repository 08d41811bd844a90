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
func labelList(s *section, key, text string) (all []label, err error) {
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		l := label{}
		name, value, named := strings.Cut(one, "=")
		if !named {
			name, value = "", one
		}
		if value = strings.TrimSpace(value); strings.HasPrefix(value, "$") || !named {
			if l.from, err = newAccessor(value); err != nil {
				return nil, s.wrong("%s: %v", key, err)
			}
			if !named {
				name = strings.Join(l.from, "_")
			}
		}
		l.name, l.value = notInLabel.ReplaceAllString(strings.TrimSpace(name), "_"), value
		all = append(all, l)
	}
	return all, nil
}

// loki configures an output to Loki's push API.
func (o *Output) loki(s *section) error {
	e, err := o.server(s, 3100)
	if err != nil {
		return err
	}
	uri, err := s.uri("uri", "/loki/api/v1/push")
	if err != nil {
		return err
	}
	if tenant := s.text("tenant_id", ""); tenant != "" {
		e.header.Set("X-Scope-OrgID", tenant)
	}
	if token := s.text("bearer_token", ""); token != "" {
		e.header.Set("Authorization", "Bearer "+token)
	}
	labels, err := labelList(s, "labels", s.text("labels", "job=fluent-bit"))
	if err != nil {
		return err
	}
	keys, err := labelList(s, "label_keys", s.text("label_keys", ""))
	if err != nil {
		return err
	}
	var remove []accessor
	for _, text := range strings.Split(s.text("remove_keys", ""), ",") {
		if text = strings.TrimSpace(text); text != "" {
			a, err := newAccessor(text)
			if err != nil {
				return s.wrong("remove_keys: %v", err)
			}
			remove = append(remove, a)
		}
	}
	format, err := s.oneOf("line_format", "json", "json", "key_value")
	if err != nil {
		return err
	}
	single, err := s.oneOf("drop_single_key", "off", "off", "false", "on", "true", "raw")
	if err != nil {
		return err
	}
	auto, err := s.on("auto_kubernetes_labels", false)
	if err != nil {
		return err
	}
	l := lokiLines{
		labels: append(labels, keys...), taken: keys, remove: remove, keyValue: format == "key_value",
		single: single, auto: auto,
	}
	o.encode = func(records []*Record) ([]Delivery, error) {
		body, err := l.encode(records)
		return []Delivery{e.post(uri, "application/json", body, len(records))}, err
	}
	return nil
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
