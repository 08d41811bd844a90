package scenario

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// shape reads the constraints of pods.
func (p *parser) shape(l *line, namespace string) (s model.Shape, err error) {
	s.Namespace = namespace
	if text, ok := l.value("ns"); ok {
		s.Namespace = text
	}
	if s.Requests, err = p.amounts(l, model.Resources{model.Pods: 1}); err != nil {
		return s, err
	}
	if s.Required, err = requirements(lists(l.group("require"))); err != nil {
		return s, err
	}
	for _, term := range l.group("any") {
		rs, err := requirements(list(term))
		if err != nil {
			return s, err
		}
		s.AnyOf = append(s.AnyOf, rs)
	}
	for _, item := range l.group("prefer") {
		weight, terms, _ := cut(item, " \t")
		n, err := whole[int32](weight)
		if err != nil {
			return s, fmt.Errorf("prefer(%s): want a weight and requirements", item)
		}
		rs, err := requirements(list(terms))
		if err != nil {
			return s, err
		}
		s.Preferred = append(s.Preferred, model.Preference{Weight: n, Terms: rs})
	}
	if s.Tolerations, err = tolerations(lists(l.group("tolerate"))); err != nil {
		return s, err
	}
	if s.Labels, err = labels(lists(l.group("labels"))); err != nil {
		return s, err
	}
	if err := among(l, &s); err != nil {
		return s, err
	}
	return s, onNode(l, &s)
}

// onNode reads what the pod occupies on its node beside resources, and what cannot be decided.
func onNode(l *line, s *model.Shape) (err error) {
	if s.HostPorts, err = ports(lists(l.group("ports"))); err != nil {
		return err
	}
	for _, item := range l.group("volume") {
		v, err := volume(item)
		if err != nil {
			return fmt.Errorf("volume(%s): %w", item, err)
		}
		s.Volumes = append(s.Volumes, v)
	}
	s.Blocked = sentence(l.group("blocked"))
	s.Unmodelled = leaves(lists(l.group("unmodelled")))
	return nil
}

// sentence is free text, best quoted.
func sentence(contents []string) string {
	for i, content := range contents {
		contents[i] = leaf(strings.TrimSpace(content))
	}
	return strings.Join(contents, ", ")
}
