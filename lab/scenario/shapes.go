package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// shape reads the constraints of pods.
func (p *parser) shape(l *line, namespace string) (s model.Shape) {
	s.Namespace = namespace
	if text, ok := l.value("ns"); ok {
		s.Namespace = text
	}
	s.Requests = p.amounts(l, model.Resources{model.Pods: 1})
	s.Required = l.requirements(lists(l.group("require")))
	for _, term := range l.group("any") {
		s.AnyOf = append(s.AnyOf, l.requirements(list(term)))
	}
	for _, item := range l.group("prefer") {
		weight, terms, _ := cut(item, " \t")
		n, err := whole[int32](weight)
		if err != nil {
			l.failf("prefer(%s): want a weight and requirements", item)
		}
		s.Preferred = append(s.Preferred, model.Preference{Weight: n, Terms: l.requirements(list(terms))})
	}
	s.Tolerations, s.Labels = l.tolerations(), l.labels()
	l.amongPods(&s)
	s.HostPorts = l.ports("ports")
	for _, item := range l.group("volume") {
		l.in("volume("+item+")", func() { s.Volumes = append(s.Volumes, l.volume(item)) })
	}
	s.Blocked = sentence(l.group("blocked"))
	s.Unmodelled = leaves(lists(l.group("unmodelled")))
	return s
}

// sentence returns free text, which is best quoted.
func sentence(contents []string) string {
	for i, content := range contents {
		contents[i] = leaf(strings.TrimSpace(content))
	}
	return strings.Join(contents, ", ")
}

// amongPods reads the constraints that refer to other pods.
func (l *line) amongPods(s *model.Shape) {
	s.Affinity, s.AntiAffinity = l.podTerms("affinity", s.Namespace), l.podTerms("anti", s.Namespace)
	for _, item := range l.group("prefer-pods") {
		l.in("prefer-pods("+item+")", func() {
			weight, rest, _ := cut(item, " \t")
			n, err := whole[int32](strings.TrimPrefix(weight, "+"))
			if err != nil {
				l.failf("want a weight before the topology")
			}
			s.PreferredPods = append(s.PreferredPods, model.PodPreference{Weight: n, PodTerm: l.podTerm(rest, s.Namespace)})
		})
	}
	for _, item := range l.group("spread") {
		l.in("spread("+item+")", func() { s.Spread = append(s.Spread, l.spread(item, s.Namespace)) })
	}
}

func (l *line) podTerms(name, own string) (out []model.PodTerm) {
	for _, item := range l.group(name) {
		l.in(name+"("+item+")", func() { out = append(out, l.podTerm(item, own)) })
	}
	return out
}

func (l *line) podTerm(text, own string) model.PodTerm {
	key, pods := l.topology(text)
	if len(fields(key)) != 1 {
		l.failf("want one topology key before the colon")
	}
	return model.PodTerm{Topology: longKey(key), Pods: l.selector(pods, own)}
}

func (l *line) topology(text string) (head, pods string) {
	i := outside(text, ":")
	if i < 0 {
		l.failf("want a topology key, a colon and which pods")
		return "", ""
	}
	return strings.TrimSpace(text[:i]), text[i+1:]
}

// selector reads requirements on the labels of pods, then their namespaces; the default namespace is own.
func (l *line) selector(text, own string) (s model.Selector) {
	s.Namespaces = []string{own}
	for from := 0; ; {
		i := outside(text[from:], " \t")
		if i < 0 {
			break
		}
		from += i + 1
		if rest := text[from:]; strings.HasPrefix(rest, "in ") {
			l.namespaces(rest[len("in "):], &s)
			text = text[:from]
			break
		}
	}
	var items []string
	for _, item := range list(text) {
		switch item {
		case "*":
		case "-":
			s.Nothing = true
		default:
			items = append(items, item)
		}
	}
	s.Labels = l.selecting(items)
	return s
}

// namespaces reads names and at most one group of requirements in braces.
func (l *line) namespaces(text string, s *model.Selector) {
	s.Namespaces = nil
	for text = strings.TrimSpace(text); text != ""; {
		name, rest, _ := cut(text, "|")
		closing := outside(text, "}")
		switch braces := text[0] == '{'; {
		case braces && (closing < 0 || s.InMatching), !braces && (len(fields(name)) > 1 || outside(name, "{}") >= 0):
			l.failf("in %s: want namespaces with | between them, of which one may be {requirements}", text)
			return
		case braces:
			s.InMatching, s.NamespaceLabels = true, l.selecting(list(text[1:closing]))
			text = strings.TrimPrefix(strings.TrimSpace(text[closing+1:]), "|")
			continue
		case name != "":
			s.Namespaces = append(s.Namespaces, leaf(name))
		}
		text = rest
	}
	slices.Sort(s.Namespaces)
	s.Namespaces = slices.Compact(s.Namespaces)
}

func spreadFields(s *model.Spread, soft *bool) []field {
	return []field{
		number("skew", &s.MaxSkew),
		number("min", &s.MinDomains),
		word("soft", soft),
		word("any-node", &s.AnyNode),
		word("untainted", &s.Untainted),
	}
}

func (l *line) spread(text, own string) model.Spread {
	head, pods := l.topology(text)
	s := model.Spread{MaxSkew: 1, Topology: longKey(l.firstWord(head, "topology key"))}
	soft := false
	l.items(head, spreadFields(&s, &soft))
	s.Hard, s.Pods = !soft, l.selector(pods, own)
	return s
}

// firstWord returns the first word of a text.
func (l *line) firstWord(text, what string) string {
	words := fields(text)
	if len(words) == 0 {
		l.failf("the %s is missing", what)
		return ""
	}
	return words[0]
}

// items reads the words of a text after the first.
func (l *line) items(text string, known []field) {
	for i, word := range fields(text) {
		if i == 0 {
			continue
		}
		if err := readItem(word, known); err != nil {
			l.failf("%w", err)
		}
	}
}

// ports reads port, address:port, port/protocol or address:port/protocol from a group.
func (l *line) ports(group string) (out []model.HostPort) {
	for _, item := range lists(l.group(group)) {
		p := model.HostPort{IP: "0.0.0.0", Protocol: "TCP"}
		text := leaf(item)
		if before, protocol, ok := strings.Cut(text, "/"); ok {
			text, p.Protocol = before, protocol
		}
		if i := strings.LastIndexByte(text, ':'); i >= 0 {
			p.IP, text = text[:i], text[i+1:]
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			l.failf("%s(%s): %s is not a port", group, item, text)
		}
		p.Port = int32(n)
		out = append(out, p)
	}
	return out
}

func volumeFields(v *model.Volume) []field {
	return []field{text("driver", &v.Driver), word("alone", &v.Alone), text("short", &v.Short)}
}

// volume reads one volume: its name and properties, a colon, and alternative conjunctions of node labels separated by
// semicolons.
func (l *line) volume(text string) (v model.Volume) {
	head, places, placed := cut(text, ":")
	v.ID = leaf(l.firstWord(head, "name"))
	l.items(head, volumeFields(&v))
	for _, place := range parts(places, ";") {
		if placed {
			v.Topology = append(v.Topology, l.requirements(list(place)))
		}
	}
	return v
}
