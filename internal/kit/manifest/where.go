package manifest

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// step is one part of a field's path: a key, or an index in brackets.
var step = regexp.MustCompile(`\[([^\]]*)\]|[^.\[\]]+`)

// LineOf returns the line of a field such as "spec.template.spec.requirements[0].operator", or of the part of its
// path that exists.
func (i Item) LineOf(field string) int {
	var doc yaml.Node
	if i.Text == nil || yaml.Unmarshal(i.Text, &doc) != nil || len(doc.Content) == 0 {
		return i.Line
	}
	at, line := doc.Content[0], 1
	for _, part := range step.FindAllString(field, -1) {
		next, key := child(at, strings.Trim(part, `[]"'`))
		if next == nil {
			break
		}
		at, line = next, key
	}
	return i.Line + line - 1
}

// child returns a field or element of a node and the line where it begins, or nil.
func child(n *yaml.Node, name string) (*yaml.Node, int) {
	switch n.Kind {
	case yaml.MappingNode:
		for k := 0; k+1 < len(n.Content); k += 2 {
			if n.Content[k].Value == name {
				return n.Content[k+1], n.Content[k].Line
			}
		}
	case yaml.SequenceNode:
		if k, err := strconv.Atoi(name); err == nil && k >= 0 && k < len(n.Content) {
			return n.Content[k], n.Content[k].Line
		}
	case yaml.AliasNode:
		return child(n.Alias, name)
	}
	return nil, 0
}
