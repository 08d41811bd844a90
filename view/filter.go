package view

import (
	"slices"
	"strings"
)

// Filter selects rows: all of its words must match. A word matches if it occurs anywhere in what a row shows,
// ignoring case; !word must not occur; key=value and key!=value compare a field (node, pool, zone, type, capacity,
// status) or a label.
type Filter struct{ words []word }

type word struct {
	key, text string
	not       bool
}

// ParseFilter parses a Filter; every text is valid.
func ParseFilter(text string) Filter {
	var f Filter
	for _, s := range strings.Fields(text) {
		w := word{}
		if key, value, ok := strings.Cut(s, "="); ok && key != "" && key != "!" {
			w.key, w.not = strings.CutSuffix(key, "!")
			w.text = value
		} else if s, w.not = strings.CutPrefix(s, "!"); s != "" {
			w.text = strings.ToLower(s)
		} else {
			continue
		}
		f.words = append(f.words, w)
	}
	return f
}

// matches compares a field for each word with a key, and searches the other words in hay, which is in lower case.
func (f Filter) matches(hay string, field func(key string) string) bool {
	return !slices.ContainsFunc(f.words, func(w word) bool {
		if w.key != "" {
			return (field(w.key) == w.text) == w.not
		}
		return strings.Contains(hay, w.text) == w.not
	})
}

// haystack returns the text in which words are searched. It is cached until the node changes.
func (x *nodeEntry) haystack() string {
	if x.hay == "" {
		x.hay = strings.ToLower(strings.Join([]string{
			x.name(), x.label(labelPool), x.label(labelType), x.capacityType(), x.label(labelZone), string(x.status()),
			x.claimName(), x.pod(),
		}, "\n"))
	}
	return x.hay
}

// Fields that nodes can be grouped, sorted and filtered by, besides labels.
const (
	FieldNode     = "node"
	FieldPool     = "pool"
	FieldZone     = "zone"
	FieldType     = "type"
	FieldCapacity = "capacity"
	FieldStatus   = "status"
)

// field returns the value of a field or label.
func (x *nodeEntry) field(key string) string {
	switch key {
	case FieldNode:
		return x.name()
	case FieldPool:
		return x.label(labelPool)
	case FieldZone:
		return x.label(labelZone)
	case FieldType:
		return x.label(labelType)
	case FieldCapacity:
		return x.capacityType()
	case FieldStatus:
		return string(x.status())
	}
	return x.label(key)
}

func (p *Pod) haystack(reason string) string {
	return strings.ToLower(p.Namespace + "/" + p.Name + "\n" + reason)
}

// field returns the value of a pod's field.
func (p *Pod) field(key string) string {
	switch key {
	case "namespace":
		return p.Namespace
	case "pod", "name":
		return p.Name
	case FieldNode:
		return p.Node
	case FieldStatus:
		return p.Phase.String()
	}
	return ""
}
