// Package pipeline carries out what the sections of the ConfigMap aws-logging say, as Fluent Bit does on Fargate: filters change the records of containers'
// lines, and outputs say what is to be sent where. It is pure: sections go in, functions and requests come out. Who reads lines and sends requests is
// package podlog.
package pipeline

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// Source is a container whose lines are routed.
type Source struct {
	Namespace, Pod, UID, Node, IP string
	Container, Image              string
	Labels, Annotations           map[string]string
}

// Tag is that of its records: of the file in which they would be on a node of Fargate.
func (s *Source) Tag() string {
	id := sha256.Sum256([]byte(s.UID + "/" + s.Container))
	return fmt.Sprintf("kube.var.log.containers.%s_%s_%s-%x.log", s.Pod, s.Namespace, s.Container, id)
}

// Record is a line on its way.
type Record struct {
	Time   time.Time
	Tag    string
	Source *Source
	Fields map[string]any // values as encoding/json has them
}

// Pipeline is a configuration that can be carried out.
type Pipeline struct {
	filters []filter
	Outputs []*Output
	// Elsewhere names outputs that were left out, since they need AWS.
	Elsewhere []string
}

// filter is a section of filters.conf.
type filter struct {
	match func(tag string) bool
	apply func(r *Record) bool // false: the record goes no further
}

// New makes a Pipeline. The error is a sentence without its full stop that says which section cannot be carried out; it holds no values of keys that
// may be secret.
func New(sections []fargate.LogSection) (*Pipeline, error) {
	parsers := map[string]*parser{}
	for i := range sections {
		if s := newSection(&sections[i]); s.Kind == "PARSER" {
			p, err := newParser(s)
			if err != nil {
				return nil, err
			}
			parsers[s.Value("name")] = p
		}
	}
	p := &Pipeline{}
	for i := range sections {
		s := newSection(&sections[i])
		switch {
		case s.Kind == "FILTER":
			apply, err := newFilter(s, parsers)
			if err != nil {
				return nil, err
			}
			p.filters = append(p.filters, filter{matcher(s.Value("match")), apply})
		case s.Kind == "OUTPUT" && s.NeedsAWS():
			p.Elsewhere = append(p.Elsewhere, s.Value("name"))
		case s.Kind == "OUTPUT":
			o, err := newOutput(s)
			if err != nil {
				return nil, err
			}
			p.Outputs = append(p.Outputs, o)
		}
	}
	if len(p.Outputs) == 0 {
		return nil, fmt.Errorf("output plugin %s needs AWS, which is not there; use file, stdout, http, loki, es or opensearch", strings.Join(p.Elsewhere, " and "))
	}
	return p, nil
}

// Line is the record of a line as a node stores it, "TIME STREAM F|P TEXT", after all filters; nil if they drop it.
func (p *Pipeline) Line(from *Source, at time.Time, stored string) *Record {
	r := &Record{Time: at, Tag: from.Tag(), Source: from, Fields: map[string]any{"log": stored}}
	for _, f := range p.filters {
		if f.match(r.Tag) && !f.apply(r) {
			return nil
		}
	}
	return r
}

// matcher is a pattern of tags, in which * stands for any characters.
func matcher(pattern string) func(string) bool {
	parts := strings.Split(pattern, "*")
	return func(tag string) bool {
		if len(parts) == 1 {
			return tag == pattern
		}
		rest, ok := strings.CutPrefix(tag, parts[0])
		if !ok {
			return false
		}
		last := len(parts) - 1
		for _, part := range parts[1:last] {
			i := strings.Index(rest, part)
			if i < 0 {
				return false
			}
			rest = rest[i+len(part):]
		}
		return strings.HasSuffix(rest, parts[last])
	}
}

// newFilter makes the function of a section of filters.conf.
func newFilter(s *section, parsers map[string]*parser) (func(*Record) bool, error) {
	var apply func(*Record) bool
	var err error
	switch name := strings.ToLower(s.Value("name")); name {
	case "grep":
		apply, err = newGrep(s)
	case "parser":
		apply, err = newParserFilter(s, parsers)
	case "record_modifier":
		apply, err = newRecordModifier(s)
	case "modify":
		apply, err = newModify(s)
	case "nest":
		apply, err = newNest(s)
	case "kubernetes":
		apply, err = newKubernetes(s, parsers)
	default:
		return nil, fmt.Errorf("%s line %d: filter %s is not carried out here; use grep, parser, record_modifier, modify, nest and kubernetes", s.File, s.Line, name)
	}
	if err == nil {
		err = s.rest()
	}
	return apply, err
}
