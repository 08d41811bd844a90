package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// shortKey writes a node label key so that longKey reads it back.
func shortKey(key string) string {
	for short, long := range shortKeys { // order does not matter: the long keys are distinct
		if long == key {
			return short
		}
	}
	if _, other := shortKeys[key]; other {
		return fmt.Sprintf("%q", key)
	}
	return quote(key)
}

// nodeLabels writes requirements on node labels, each as one or more items that must all hold.
func nodeLabels(rs model.Requirements) []string { return itemsOf(rs, shortKey) }

func podLabels(rs model.Requirements) []string { return itemsOf(rs, quote) }

func itemsOf(rs model.Requirements, key func(string) string) []string {
	var out []string
	for _, r := range rs {
		items := itemsOfOne(r, key(r.Key))
		if r.MinValues != 0 {
			items[0] += fmt.Sprintf("@%d", r.MinValues)
		}
		out = append(out, items...)
	}
	return out
}

func itemsOfOne(r model.Requirement, key string) (items []string) {
	values := strings.Join(quoteAll(r.Values), "|")
	switch {
	case r.Impossible():
		return []string{key, "!" + key}
	case r.IsDoesNotExist():
		return []string{"!" + key}
	case !r.Complement:
		return []string{key + "=" + values}
	}
	if r.Gte != nil {
		items = append(items, fmt.Sprintf("%s>=%d", key, *r.Gte))
	}
	if r.Lte != nil {
		items = append(items, fmt.Sprintf("%s<=%d", key, *r.Lte))
	}
	if len(items) == 0 && (r.Present || len(r.Values) == 0) {
		items = append(items, key)
	}
	if len(r.Values) > 0 {
		items = append(items, key+"!="+values)
	}
	return items
}

func joined(items []string) string { return strings.Join(items, ", ") }

func labelItems(labels []model.Label) []string {
	return mapped(labels, func(l model.Label) string { return quote(l.Key) + "=" + quote(l.Value) })
}

func taintItem(t model.Taint) string {
	item := quote(t.Key)
	if t.Value != "" {
		item += "=" + quote(t.Value)
	}
	return item + ":" + string(t.Effect)
}

func tolerationItem(t model.Toleration) string {
	item := "*"
	if t.Key != "" {
		item = quote(t.Key)
	}
	if !t.Exists {
		item += "=" + quote(t.Value)
	}
	if t.Effect != "" {
		item += ":" + string(t.Effect)
	}
	return item
}

func attachItem(l model.AttachLimit) string { return fmt.Sprintf("%s=%d", quote(l.Driver), l.Max) }

// selectorItem writes which pods; own is the default namespace.
func selectorItem(s *model.Selector, own string) string {
	items := podLabels(s.Labels)
	if s.Nothing {
		items = append([]string{"-"}, items...)
	}
	if len(items) == 0 {
		items = []string{"*"}
	}
	if !s.InMatching && slices.Equal(s.Namespaces, []string{own}) {
		return joined(items)
	}
	where := quoteAll(s.Namespaces)
	if s.InMatching {
		where = append(where, "{"+joined(podLabels(s.NamespaceLabels))+"}")
	}
	if len(where) == 0 {
		where = []string{"|"}
	}
	return joined(items) + " in " + strings.Join(where, "|")
}

func termItem(t *model.PodTerm, own string) string {
	return shortKey(t.Topology) + ": " + selectorItem(&t.Pods, own)
}

func spreadItem(s *model.Spread, own string) string {
	soft := !s.Hard
	head := declare(shortKey(s.Topology)).fields(spreadFields(s, &soft)...)
	return strings.Join(head.parts, " ") + ": " + selectorItem(&s.Pods, own)
}

func portItem(p model.HostPort) string {
	text := fmt.Sprint(p.Port)
	if p.IP != "0.0.0.0" {
		text = p.IP + ":" + text
	}
	if p.Protocol != "TCP" {
		text += "/" + p.Protocol
	}
	if strings.ContainsFunc(text, func(c rune) bool { return !plain(c) && c != ':' && c != '/' }) {
		return quote(text)
	}
	return text
}

func volumeItem(v model.Volume) string {
	head := declare(quote(v.ID)).fields(volumeFields(&v)...)
	item := strings.Join(head.parts, " ")
	if len(v.Topology) == 0 {
		return item
	}
	places := mapped(v.Topology, func(rs model.Requirements) string { return joined(nodeLabels(rs)) })
	return item + ": " + strings.Join(places, "; ")
}
