package view

import (
	"cmp"
	"slices"
	"strings"
)

func (t *eventTable) podPage(o *orderOf[*Pod], q Query) Page[PodRow] {
	p := Page[PodRow]{Lines: len(o.lines), Of: o.of, Shown: len(o.lines)}
	var seen []lineOf[*Pod]
	p.Window, seen = window(o.lines, q.Window)
	p.Rows = make([]PodRow, len(seen))
	for i, l := range seen {
		p.Rows[i] = t.podRow(l.of)
	}
	return p
}

func (m *Model) orderPods(o *orderOf[*Pod], pods []*Pod, q Query) {
	filter := ParseFilter(q.Filter)
	var ranks []rank[*Pod]
	for _, p := range pods {
		if len(filter.words) > 0 && !filter.matches(p.haystack(m.verdict(p)), p.field) {
			continue
		}
		r := rank[*Pod]{of: p, name: p.Namespace + "/" + p.Name}
		switch q.Sort.Key {
		case SortAge:
			r.number = -seconds(p.Created)
		case "":
			if p.Node == "" {
				r.number = seconds(p.Created)
			}
		default:
			if i := slices.Index(m.resources, q.Sort.Key); i >= 0 {
				r.number = float64(p.Requests[i])
			} else {
				r.text = p.field(q.Sort.Key)
			}
		}
		ranks = append(ranks, r)
	}
	sorted(ranks, q.Sort)
	for i := range ranks {
		o.lines = append(o.lines, lineOf[*Pod]{key: ranks[i].name, of: ranks[i].of})
	}
}

func (t *eventTable) podRow(p *Pod) PodRow {
	return PodRow{
		Namespace: p.Namespace, Name: p.Name, Node: p.Node, Created: p.Created, Phase: p.Phase, Deleting: p.Deleting,
		Gated:    p.Gated,
		Requests: p.Requests, Why: t.verdict(p),
	}
}

// verdict returns why a pod is pending, or where it is to run.
func (t *eventTable) verdict(p *Pod) string {
	if p.Node != "" {
		return ""
	}
	if p.Gated {
		return cmp.Or(p.Verdict, "its scheduling gates have to be removed")
	}
	said := t.said[Object{"Pod", p.Namespace, p.Name}]
	if !said.concerns(p.UID) {
		said = Said{}
	}
	return cmp.Or(strings.TrimPrefix(said.Message, "Failed to schedule pod, "), p.Verdict, "not evaluated yet")
}
