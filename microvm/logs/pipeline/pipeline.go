// Package pipeline implements the configuration in the ConfigMap aws-logging, as Fluent Bit does on Fargate: parsers
// and filters change the records of container lines, and outputs encode them for their destinations. It performs no
// I/O: sections go in; functions and requests come out. Package logs reads the lines and sends the requests.
package pipeline

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// Source is a container whose lines are routed.
type Source struct {
	Namespace, Pod, UID, Node, IP string
	Container, Image              string
	Labels, Annotations           map[string]string
}

// Tag returns the tag of the container's records, which contains the name that its log file would have on Fargate.
func (s *Source) Tag() string {
	id := sha256.Sum256([]byte(s.UID + "/" + s.Container))
	return fmt.Sprintf("kube.var.log.containers.%s_%s_%s-%x.log", s.Pod, s.Namespace, s.Container, id)
}

// Record is a line on its way through the filters.
type Record struct {
	Time   time.Time
	Tag    string
	Source *Source
	Fields map[string]any // values of the types of encoding/json
}

// Pipeline is a valid configuration.
type Pipeline struct {
	filters []filter
	Outputs []*Output
	// Elsewhere names the outputs that are left out because they need AWS.
	Elsewhere []string
}

// filter is a section of filters.conf.
type filter struct {
	match func(tag string) bool
	apply func(r *Record) bool // returns false to drop the record
}

// New returns the Pipeline of parsed sections for hosts with these abilities. Its error is a sentence without a full
// stop that says which section is not supported. It contains no values of keys that may be secret.
func New(sections []fargate.LogSection, able fargate.Abilities) (*Pipeline, error) {
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
		case s.Kind == "OUTPUT" && s.NeedsAWS(able):
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
		return nil, fmt.Errorf("output plugin %s needs AWS and is not supported here; use file, stdout, http, loki, es or "+
			"opensearch", strings.Join(p.Elsewhere, " and "))
	}
	return p, nil
}

// Line returns the record of a line that is formatted as a node stores it, "TIME STREAM F|P TEXT", after all filters;
// nil if a filter drops it.
func (p *Pipeline) Line(from *Source, at time.Time, stored string) *Record {
	r := &Record{Time: at, Tag: from.Tag(), Source: from, Fields: map[string]any{"log": stored}}
	for _, f := range p.filters {
		if f.match(r.Tag) && !f.apply(r) {
			return nil
		}
	}
	return r
}

// matcher returns a match function for a tag pattern, in which * stands for any characters.
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

// newFilter parses a filter section.
func newFilter(s *section, parsers map[string]*parser) (func(*Record) bool, error) {
	name := strings.ToLower(s.Value("name"))
	newFilter := filters[name]
	if newFilter == nil {
		return nil, fmt.Errorf("%s line %d: filter %s is not supported; use grep, parser, record_modifier, modify, "+
			"nest and kubernetes", s.File, s.Line, name)
	}
	apply := newFilter(s, parsers)
	return apply, s.rest()
}

// filters are the plugins by name.
var filters = map[string]func(*section, map[string]*parser) func(*Record) bool{
	"grep": newGrep, "parser": newParserFilter, "record_modifier": newRecordModifier, "modify": newModify, "nest": newNest,
	"kubernetes": newKubernetes,
}

// State returns whether and how the logs of a profile's pods are routed. namespace and configMap are
// aws-observability and its aws-logging, nil if they do not exist. A section that EKS accepts but that is not
// supported here disables logging altogether: a filter that is left out might have removed secrets.
func State(spec *v1alpha1.FargateProfileSpec, namespace *corev1.Namespace, configMap *corev1.ConfigMap,
	able fargate.Abilities,
) (fargate.LogState, *Pipeline) {
	state := fargate.LogRouting(spec, namespace, configMap, able)
	if !state.Enabled {
		return state, nil
	}
	sections, err := fargate.ParseLogging(configMap.Data)
	var p *Pipeline
	if err == nil {
		p, err = New(sections, able)
	}
	if err != nil {
		return fargate.LogState{
			Annotation: "LoggingDisabled: LOGGING_CONFIGMAP_NOT_CARRIED_OUT", Reason: "LoggingDisabled",
			Message: fmt.Sprintf("Disabled logging for pod: %v", err),
		}, nil
	}
	return state, p
}
