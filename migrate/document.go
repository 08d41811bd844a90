package migrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxInput  = 64 << 20 // bytes of one input
	maxValues = 1 << 20  // of one document, with aliases expanded
	maxDepth  = 100
)

// document is an object of the input.
type document struct {
	file   string
	line   int
	object map[string]any
	twice  []string // paths of duplicate keys: the last one counts
	answer answer   // of the AWS API, if it is not a Kubernetes object
}

// answer describes a part of the AWS CLI's output.
type answer struct {
	kind    string
	name    string // field that holds the name
	version string // field that holds the version number, if any
}

// answers are the parts that are read, by the field that holds them: an object, or a list of objects.
var answers = map[string]answer{
	"AutoScalingGroups":      {kind: "AutoScalingGroup", name: "AutoScalingGroupName"},
	"LaunchConfigurations":   {kind: "LaunchConfiguration", name: "LaunchConfigurationName"},
	"LaunchTemplateVersions": {kind: "LaunchTemplate", name: "LaunchTemplateName", version: "VersionNumber"},
	"nodegroup":              {kind: "Nodegroup", name: "nodegroupName"},
	"fargateProfile":         {kind: "FargateProfile", name: "fargateProfileName"},
}

const awsGroup = "AWS API" // stands in for an API group

func (d *document) kind() string       { return cmp.Or(d.answer.kind, text(d.object["kind"])) }
func (d *document) apiVersion() string { return text(d.object["apiVersion"]) }

func (d *document) name() string {
	if version := text(d.object[d.answer.version]); version != "" {
		return text(d.object[d.answer.name]) + " version " + version
	}
	return cmp.Or(text(d.object[d.answer.name]), text(child(d.object, "metadata")["name"]))
}

// group returns the API group, and its version.
func (d *document) group() (group, version string) {
	if d.answer.kind != "" {
		return awsGroup, ""
	}
	if group, version, ok := strings.Cut(d.apiVersion(), "/"); ok {
		return group, version
	}
	return "", d.apiVersion()
}

// title names the object: "Provisioner default".
func (d *document) title() string {
	return cmp.Or(d.kind(), "object") + " " + cmp.Or(d.name(), "without a name")
}

// read returns the objects of an input, with Lists split into their items. The error names file and line.
func read(in *Input) ([]*document, error) {
	file := in.Name
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(b) > maxInput {
		return nil, fmt.Errorf("%s: it is larger than %d MiB; give its objects in several files", file, maxInput>>20)
	}
	var out []*document
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var node yaml.Node
		err := d.Decode(&node)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, unparsed(b, err))
		}
		more, err := documents(file, &node)
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			d.withoutState()
			if in.Live {
				d.line = 0
			} else if path := d.template(); path != "" {
				return nil, fmt.Errorf("%s: line %d: %s: %s: %s", file, d.line, d.title(), path, notRendered)
			}
		}
		out = append(out, more...)
	}
}

// withoutState removes from a Kubernetes object what the API server and controllers set.
func (d *document) withoutState() {
	if d.answer.kind != "" || d.apiVersion() == "" {
		return
	}
	delete(d.object, "status")
	metadata := child(d.object, "metadata")
	for _, key := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
	} {
		delete(metadata, key)
	}
	annotations := child(metadata, "annotations")
	for _, key := range []string{
		"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
		"deprecated.daemonset.template.generation",
	} {
		delete(annotations, key)
	}
	if annotations != nil && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

func documents(file string, node *yaml.Node) ([]*document, error) {
	v := values{left: maxValues}
	value, err := v.of(node, "", 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if value == nil {
		return nil, nil // nothing but comments
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: line %d: it is no Kubernetes object", file, node.Line)
	}
	d := &document{file: file, line: firstLine(node), object: object, twice: v.twice}
	if items, isList := object["items"].([]any); isList && strings.HasSuffix(d.kind(), "List") {
		return d.parts(items, answer{}), nil
	}
	if d.kind() != "" {
		return []*document{d}, nil
	}
	var out []*document
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		switch part := object[key].(type) {
		case []any:
			out = append(out, d.parts(part, answers[key])...)
		case map[string]any:
			out = append(out, d.parts([]any{part}, answers[key])...)
		}
	}
	if out == nil {
		return []*document{d}, nil
	}
	return out, nil
}

// parts returns the objects of a list.
func (d *document) parts(items []any, a answer) (out []*document) {
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			out = append(out, &document{file: d.file, line: d.line, object: object, answer: a})
		}
	}
	return out
}

func firstLine(node *yaml.Node) int {
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		return node.Content[0].Line
	}
	return node.Line
}

// values converts YAML into maps, lists and scalars. Of duplicate keys the last one counts, as in Kubernetes'
// readers.
type values struct {
	left  int
	twice []string
}

func (v *values) of(node *yaml.Node, path string, depth int) (any, error) {
	if v.left--; v.left < 0 || depth > maxDepth {
		return nil, fmt.Errorf("line %d: it is too large or too deep for a Kubernetes object", node.Line)
	}
	switch node.Kind {
	case yaml.DocumentNode:
		if len(node.Content) == 0 {
			return nil, nil
		}
		return v.of(node.Content[0], path, depth+1)
	case yaml.AliasNode:
		return v.of(node.Alias, path, depth+1)
	case yaml.MappingNode:
		return v.mapping(node, path, depth)
	case yaml.SequenceNode:
		out := make([]any, 0, len(node.Content))
		for i, item := range node.Content {
			value, err := v.of(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	var out any
	if err := node.Decode(&out); err != nil {
		return nil, err
	}
	switch out.(type) {
	case nil, string, bool, int, int64, uint64, float64:
		return out, nil
	}
	return node.Value, nil // a date, which is text to Kubernetes
}

func (v *values) mapping(node *yaml.Node, path string, depth int) (any, error) {
	out := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Kind == yaml.MappingNode { // {{ .Values.x }} without quotes
			return nil, fmt.Errorf("line %d: %s", node.Content[i].Line, notRendered)
		}
		key := node.Content[i].Value
		at := join(path, key)
		if _, known := out[key]; known {
			v.twice = append(v.twice, at)
		}
		value, err := v.of(node.Content[i+1], at, depth+1)
		if err != nil {
			return nil, err
		}
		if merged, ok := value.(map[string]any); ok && key == "<<" {
			for k, inherited := range merged {
				if _, known := out[k]; !known {
					out[k] = inherited
				}
			}
			continue
		}
		out[key] = value
	}
	return out, nil
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// text returns a scalar as text; "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

// child returns an object within an object; nil if there is none.
func child(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}
