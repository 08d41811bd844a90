package fargate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// maxLogging is the size limit of the ConfigMap aws-logging in characters (EKS User Guide, fargate-logging).
const maxLogging = 5300

// loggingFiles says which section each key of the ConfigMap may hold, and which keys each section requires.
var loggingFiles = map[string]struct {
	section  string
	required []string
}{
	"filters.conf": {"FILTER", []string{"name", "match"}},
	"output.conf":  {"OUTPUT", []string{"name", "match"}},
	"parsers.conf": {"PARSER", []string{"name", "format"}},
}

// Plugins that Fargate accepts (EKS User Guide, fargate-logging), and outputs that work without AWS.
var (
	loggingFilters = []string{
		"grep", "parser", "record_modifier", "rewrite_tag", "throttle", "nest", "modify",
		"kubernetes",
	}
	outputsOfAWS = []string{"es", "firehose", "kinesis_firehose", "cloudwatch", "cloudwatch_logs", "kinesis"}
	outputsHere  = []string{"file", "stdout", "http", "loki", "opensearch"}
)

// ownedKeys are the keys of the filter kubernetes that users may not set.
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

// Value returns the value of a key, given in lower case; "" if it is not set.
func (s *LogSection) Value(key string) string {
	for _, e := range s.Entries {
		if e.Key == key {
			return e.Value
		}
	}
	return ""
}

// cloudWatchOutputs are the outputs to CloudWatch Logs: Fluent Bit's own, and the plugin in Go that it replaces.
var cloudWatchOutputs = []string{"cloudwatch_logs", "cloudwatch"}

// NeedsAWS reports whether a section is an output to an AWS service that hosts with these abilities cannot reach.
// Elasticsearch and OpenSearch are such services if aws_auth is set.
func (s *LogSection) NeedsAWS(able Abilities) bool {
	name := strings.ToLower(s.Value("name"))
	switch {
	case s.Kind != "OUTPUT", able.CloudWatch && slices.Contains(cloudWatchOutputs, name):
		return false
	case name == "es" || name == "opensearch":
		return slices.Contains([]string{"on", "true", "yes", "1"}, strings.ToLower(s.Value("aws_auth")))
	}
	return slices.Contains(outputsOfAWS, name)
}

// ParseLogging parses the data of the ConfigMap aws-logging. Its error is a sentence without a full stop that names
// what Fargate does not accept, and where.
func ParseLogging(data map[string]string) ([]LogSection, error) {
	size := 0
	for _, text := range data {
		size += utf8.RuneCountInString(text)
	}
	if size > maxLogging {
		return nil, fmt.Errorf("the configmap has %d characters, %d are allowed", size, maxLogging)
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

// parseLogFile parses one key of the ConfigMap.
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
			// Omit the value, which may be a password.
			return nil, wrong("the key %s stands before any section", strings.Fields(bare)[0])
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

// checkSection validates one section.
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

// LogState says whether the logs of a pod are routed, and why not.
type LogState struct {
	Annotation string // value of the annotation Logging
	Enabled    bool
	Reason     string // of the event: LoggingEnabled or LoggingDisabled; "" for no event
	Message    string
}

// DisabledByProfile is the reason for pods whose profile disables logging.
const DisabledByProfile = "DISABLED_BY_PROFILE"

// LogRouting returns whether the logs of a profile's new pod are routed. namespace and configMap are aws-observability
// and its aws-logging, nil if they do not exist.
func LogRouting(spec *v1alpha1.FargateProfileSpec, namespace *corev1.Namespace, configMap *corev1.ConfigMap,
	able Abilities,
) LogState {
	disabled := func(code, message string) LogState {
		return LogState{Annotation: "LoggingDisabled: " + code, Reason: "LoggingDisabled", Message: message}
	}
	if spec.Logging != nil && spec.Logging.Router == v1alpha1.LogRouterDisabled {
		return LogState{Annotation: "LoggingDisabled: " + DisabledByProfile}
	}
	if namespace == nil || namespace.Labels[LoggingLabel] != "enabled" || configMap == nil {
		return disabled("LOGGING_CONFIGMAP_NOT_FOUND",
			`Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`)
	}
	sections, err := ParseLogging(configMap.Data)
	if err != nil {
		return disabled("LOGGING_CONFIGMAP_INVALID",
			fmt.Sprintf("Disabled logging for pod due to invalid configmap. %v. Please fix the logging configmap", err))
	}
	if !able.LogRouter {
		return disabled("LOG_ROUTER_NOT_AVAILABLE",
			"Disabled logging for pod: the hosts of microVMs here have no log router; kubectl logs works")
	}
	elsewhere, here := []string{}, 0
	for i := range sections {
		if sections[i].NeedsAWS(able) {
			elsewhere = append(elsewhere, sections[i].Value("name"))
		} else if sections[i].Kind == "OUTPUT" {
			here++
		}
	}
	enabled := LogState{
		Annotation: "LoggingEnabled", Enabled: true, Reason: "LoggingEnabled",
		Message: "Successfully enabled logging for pod",
	}
	switch names := strings.Join(elsewhere, ", "); {
	case here == 0:
		return disabled("OUTPUT_NEEDS_AWS", fmt.Sprintf("Disabled logging for pod: output plugin %s needs AWS and is "+
			"not supported here; use file, stdout, http, loki, es or opensearch", names))
	case names != "":
		enabled.Message += fmt.Sprintf(", but not for output plugin %s, which needs AWS and is not supported here", names)
	}
	return enabled
}
