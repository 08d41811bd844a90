package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// among reads the constraints that refer to other pods.
func among(l *line, s *model.Shape) (err error) {
	if s.Affinity, err = podTerms(l, "affinity", s.Namespace); err != nil {
		return err
	}
	if s.AntiAffinity, err = podTerms(l, "anti", s.Namespace); err != nil {
		return err
	}
	for _, item := range l.group("prefer-pods") {
		weight, rest, _ := cut(item, " \t")
		n, err := whole[int32](strings.TrimPrefix(weight, "+"))
		if err != nil {
			return fmt.Errorf("prefer-pods(%s): want a weight before the topology", item)
		}
		term, err := podTerm(rest, s.Namespace)
		if err != nil {
			return fmt.Errorf("prefer-pods(%s): %w", item, err)
		}
		s.PreferredPods = append(s.PreferredPods, model.PodPreference{Weight: n, PodTerm: term})
	}
	for _, item := range l.group("spread") {
		spread, err := spreadOf(item, s.Namespace)
		if err != nil {
			return fmt.Errorf("spread(%s): %w", item, err)
		}
		s.Spread = append(s.Spread, spread)
	}
	return nil
}

func podTerms(l *line, name, own string) ([]model.PodTerm, error) {
	var out []model.PodTerm
	for _, item := range l.group(name) {
		term, err := podTerm(item, own)
		if err != nil {
			return nil, fmt.Errorf("%s(%s): %w", name, item, err)
		}
		out = append(out, term)
	}
	return out, nil
}

func podTerm(text, own string) (model.PodTerm, error) {
	key, pods, err := topology(text)
	if err != nil {
		return model.PodTerm{}, err
	}
	if key == "" || len(fields(key)) > 1 {
		return model.PodTerm{}, fmt.Errorf("want one topology key before the colon")
	}
	selector, err := selector(pods, own)
	return model.PodTerm{Topology: longKey(key), Pods: selector}, err
}

func topology(text string) (head, pods string, err error) {
	i := outside(text, ":")
	if i < 0 {
		return "", "", fmt.Errorf("want a topology key, a colon and which pods")
	}
	return strings.TrimSpace(text[:i]), text[i+1:], nil
}

// selector reads requirements on the labels of pods, then their namespaces; own is the default.
func selector(text, own string) (s model.Selector, err error) {
	s.Namespaces = []string{own}
	for from := 0; ; {
		i := outside(text[from:], " \t")
		if i < 0 {
			break
		}
		from += i + 1
		if rest := text[from:]; strings.HasPrefix(rest, "in ") {
			if err := namespaces(rest[len("in "):], &s); err != nil {
				return s, err
			}
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
	s.Labels, err = selecting(items)
	return s, err
}

// namespaces reads names and at most one group of requirements in braces.
func namespaces(text string, s *model.Selector) (err error) {
	s.Namespaces = nil
	for text = strings.TrimSpace(text); text != ""; {
		if text[0] == '{' {
			closing := outside(text, "}")
			if closing < 0 || s.InMatching {
				return fmt.Errorf("in %s: want namespaces with | between them, of which one may be {requirements}", text)
			}
			s.InMatching = true
			if s.NamespaceLabels, err = selecting(list(text[1:closing])); err != nil {
				return err
			}
			text = strings.TrimPrefix(strings.TrimSpace(text[closing+1:]), "|")
			continue
		}
		name, rest, _ := cut(text, "|")
		if len(fields(name)) > 1 || outside(name, "{}") >= 0 {
			return fmt.Errorf("in %s: want namespaces with | between them, of which one may be {requirements}", text)
		}
		if name != "" {
			s.Namespaces = append(s.Namespaces, leaf(name))
		}
		text = rest
	}
	slices.Sort(s.Namespaces)
	s.Namespaces = slices.Compact(s.Namespaces)
	return nil
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

func spreadOf(text, own string) (model.Spread, error) {
	s := model.Spread{MaxSkew: 1, Hard: true}
	head, pods, err := topology(text)
	if err != nil {
		return s, err
	}
	words := fields(head)
	if len(words) == 0 {
		return s, fmt.Errorf("the topology key is missing")
	}
	s.Topology = longKey(words[0])
	soft := false
	known := spreadFields(&s, &soft)
	for _, word := range words[1:] {
		if err := readItem(word, known); err != nil {
			return s, err
		}
	}
	s.Hard = !soft
	s.Pods, err = selector(pods, own)
	return s, err
}

// ports reads port, address:port, port/protocol or address:port/protocol.
func ports(items []string) ([]model.HostPort, error) {
	var out []model.HostPort
	for _, item := range items {
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
			return nil, fmt.Errorf("ports(%s): %s is not a port", item, text)
		}
		p.Port = int32(n)
		out = append(out, p)
	}
	return out, nil
}

func volumeFields(v *model.Volume) []field {
	return []field{text("driver", &v.Driver), word("alone", &v.Alone)}
}

// volume reads one volume: its name and kind, a colon, and alternative conjunctions of node labels separated by
// semicolons.
func volume(text string) (v model.Volume, err error) {
	head, places, placed := cut(text, ":")
	words := fields(head)
	if len(words) == 0 {
		return v, fmt.Errorf("the name is missing")
	}
	v.ID = leaf(words[0])
	for _, word := range words[1:] {
		if err := readItem(word, volumeFields(&v)); err != nil {
			return v, err
		}
	}
	if !placed {
		return v, nil
	}
	for _, place := range parts(places, ";") {
		rs, err := requirements(list(place))
		if err != nil {
			return v, err
		}
		v.Topology = append(v.Topology, rs)
	}
	return v, nil
}
