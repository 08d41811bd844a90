package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func binary(b []byte) *yaml.Node { return scalar(base64.StdEncoding.EncodeToString(b)) }

// mapping builds a mapping from alternating keys and *yaml.Node values.
func mapping(pairs ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Content = append(m.Content, scalar(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return m
}

// get returns the value of a key, nil if there is none or m is not a mapping.
func get(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func set(m *yaml.Node, key string, value *yaml.Node) {
	if have := get(m, key); have != nil {
		*have = *value
		return
	}
	m.Content = append(m.Content, scalar(key), value)
}

// find returns the item of a list that has a name.
func find(list *yaml.Node, name string) *yaml.Node {
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		if n := get(item, "name"); n != nil && n.Value == name {
			return item
		}
	}
	return nil
}

// upsert replaces a field of the list's item with a name, or appends such an item; other fields of the item are kept.
func upsert(root *yaml.Node, list, name, field string, value *yaml.Node) error {
	seq := get(root, list)
	if seq == nil || seq.Tag == "!!null" {
		seq = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		set(root, list, seq)
		seq = get(root, list)
	}
	if seq.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s is not a list", list)
	}
	if item := find(seq, name); item != nil {
		set(item, field, value)
		return nil
	}
	if len(seq.Content) == 0 {
		seq.Style = 0 // `clusters: []` becomes a list with a line for each item
	}
	seq.Content = append(seq.Content, mapping("name", scalar(name), field, value))
	return nil
}

// drop removes the items with a name from a list.
func drop(root *yaml.Node, list, name string) {
	seq := get(root, list)
	for item := find(seq, name); item != nil; item = find(seq, name) {
		seq.Content = slices.DeleteFunc(seq.Content, func(n *yaml.Node) bool { return n == item })
	}
	if seq != nil && len(seq.Content) == 0 {
		seq.Style = yaml.FlowStyle
	}
}
