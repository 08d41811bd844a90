package fargate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mostLogging is how many characters the ConfigMap aws-logging may hold (EKS User Guide, fargate-logging).
const mostLogging = 5300

// loggingFile says which section a key of the ConfigMap may hold, and what each of its sections must say.
var loggingFiles = map[string]struct {
	section  string
	required []string
}{
	"filters.conf": {"FILTER", []string{"name", "match"}},
	"output.conf":  {"OUTPUT", []string{"name", "match"}},
	"parsers.conf": {"PARSER", []string{"name", "format"}},
}

// Plugins that Fargate knows (EKS User Guide, fargate-logging), and outputs that can be carried out without AWS.
var (
	loggingFilters = []string{"grep", "parser", "record_modifier", "rewrite_tag", "throttle", "nest", "modify", "kubernetes"}
	outputsOfAWS   = []string{"es", "firehose", "kinesis_firehose", "cloudwatch", "cloudwatch_logs", "kinesis"}
	outputsHere    = []string{"file", "stdout", "http", "loki", "opensearch"}
)

// ownedKeys are those of the filter kubernetes that are not the user's to set.
var ownedKeys = []string{"kube_url", "kube_ca_file", "kube_token_command", "kube_token_file"}

var environment = regexp.MustCompile(`\$\{[^}]*\}`)

// LogSection is one section of the log router's configuration.
type LogSection struct {
	File    string // key of the ConfigMap
	Kind    string // FILTER, OUTPUT or PARSER
	Line    int    // of its header, from 1
	Entries []LogEntry
}

// LogEntry is a key, in lower case, and its value.
type LogEntry struct{ Key, Value string }

// Value is that of a key in lower case, "" if it is not there.
func (s *LogSection) Value(key string) string {
	for _, e := range s.Entries {
		if e.Key == key {
			return e.Value
		}
	}
	return ""
}

// NeedsAWS reports whether a section is an output that goes to a service of AWS. Elasticsearch and OpenSearch are such services if one is let in by
// AWS's signatures alone.
func (s *LogSection) NeedsAWS() bool {
	name := strings.ToLower(s.Value("name"))
	switch {
	case s.Kind != "OUTPUT":
		return false
	case name == "es" || name == "opensearch":
		return slices.Contains([]string{"on", "true", "yes", "1"}, strings.ToLower(s.Value("aws_auth")))
	}
	return slices.Contains(outputsOfAWS, name)
}

// ParseLogging reads the data of the ConfigMap aws-logging. The error is a sentence without its full stop that says what Fargate
// does not accept, and where.
func ParseLogging(data map[string]string) ([]LogSection, error) {
	size := 0
	for _, text := range data {
		size += utf8.RuneCountInString(text)
	}
	if size > mostLogging {
		return nil, fmt.Errorf("the configmap has %d characters, %d are allowed", size, mostLogging)
	}
	var all []LogSection
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name == "flb_log_cw" {
			if v := strings.ToLower(strings.TrimSpace(data[name])); v != "true" && v != "false" {
				return nil, fmt.Errorf(`flb_log_cw is %q, use "true" or "false"`, data[name])
			}
			continue
		}
		if _, known := loggingFiles[name]; !known {
			return nil, fmt.Errorf("%s is not a supported key, use filters.conf, output.conf, parsers.conf and flb_log_cw", name)
		}
		sections, err := parseLogFile(name, data[name])
		if err != nil {
			return nil, err
		}
		all = append(all, sections...)
	}
	if !slices.ContainsFunc(all, func(s LogSection) bool { return s.Kind == "OUTPUT" }) {
		return nil, fmt.Errorf("output.conf has no [OUTPUT] section, at least one is needed")
	}
	return all, nil
}

// parseLogFile reads one key of the ConfigMap.
func parseLogFile(file, text string) ([]LogSection, error) {
	var sections []LogSection
	headerIndent, entryIndent := -1, -1
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		bare := strings.TrimLeft(line, " \t")
		if bare == "" || bare[0] == '#' {
			continue
		}
		indent := len(line) - len(bare)
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("%s line %d: %s", file, number, fmt.Sprintf(format, args...))
		}
		if found := environment.FindString(bare); found != "" {
			return nil, wrong("environment variables such as %s are not supported", found)
		}
		if bare[0] == '[' {
			kind := strings.ToUpper(strings.Trim(bare, "[] \t"))
			if want := loggingFiles[file].section; kind != want {
				return nil, wrong("section [%s] is not supported in %s, only [%s] is", kind, file, want)
			}
			if headerIndent >= 0 && indent != headerIndent {
				return nil, wrong("sections must be indented alike")
			}
			headerIndent = indent
			sections = append(sections, LogSection{File: file, Kind: kind, Line: number})
			continue
		}
		switch {
		case bare[0] == '@':
			return nil, wrong("commands such as %s are not supported", strings.Fields(bare)[0])
		case len(sections) == 0:
			return nil, wrong("the key %s stands before any section", strings.Fields(bare)[0]) // its value may be a password
		case indent <= headerIndent:
			return nil, wrong("a key must be indented deeper than its section")
		case entryIndent >= 0 && indent != entryIndent:
			return nil, wrong("keys must be indented alike")
		}
		entryIndent = indent
		key, value, _ := strings.Cut(strings.Replace(bare, "\t", " ", 1), " ")
		last := &sections[len(sections)-1]
		last.Entries = append(last.Entries, LogEntry{strings.ToLower(key), strings.TrimSpace(value)})
	}
	for i := range sections {
		if err := checkSection(&sections[i]); err != nil {
			return nil, err
		}
	}
	return sections, nil
}

// checkSection judges what one section says.
func checkSection(s *LogSection) error {
	for _, key := range loggingFiles[s.File].required {
		if s.Value(key) == "" {
			return fmt.Errorf("%s line %d: [%s] needs the key %s", s.File, s.Line, s.Kind, key)
		}
	}
	name := strings.ToLower(s.Value("name"))
	switch s.Kind {
	case "OUTPUT":
		if !slices.Contains(outputsOfAWS, name) && !slices.Contains(outputsHere, name) {
			return fmt.Errorf("%s is not a supported output plugin", s.Value("name"))
		}
	case "FILTER":
		if !slices.Contains(loggingFilters, name) {
			return fmt.Errorf("%s is not a supported filter plugin", s.Value("name"))
		}
		for _, e := range s.Entries {
			if name == "kubernetes" && slices.Contains(ownedKeys, e.Key) {
				return fmt.Errorf("%s line %d: %s of the filter kubernetes cannot be set", s.File, s.Line, e.Key)
			}
		}
	}
	return nil
}
