package pipeline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// asText returns a value as the text that the filters compare.
func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case map[string]any, []any:
		b, _ := json.Marshal(v) // v came from JSON
		return string(b)
	default:
		return fmt.Sprint(v)
	}
}

// rule is a rule of the filter grep.
type rule struct {
	exclude bool
	key     accessor
	re      *regexp.Regexp
}

func (g *rule) matches(r *Record) bool {
	v, ok := g.key.find(r.Fields)
	return ok && g.re.MatchString(asText(v))
}

// newGrep returns the filter grep, which keeps and drops records by their values. Without Logical_Op, each rule
// applies on its own, in order.
func newGrep(s *section, _ map[string]*parser) func(*Record) bool {
	var rules []rule
	excludes := 0
	for _, e := range s.Entries {
		if e.Key != "regex" && e.Key != "exclude" {
			continue
		}
		name, text, ok := strings.Cut(e.Value, " ")
		if !ok {
			s.fail("%s needs a key and an expression", e.Key)
		}
		g := rule{e.Key == "exclude", s.accessor(e.Key, name), s.expression(e.Key, strings.TrimSpace(text))}
		if g.exclude {
			excludes++
		}
		rules = append(rules, g)
	}
	s.ignore("regex", "exclude")
	op := s.oneOf("logical_op", "legacy", "legacy", "and", "or")
	switch {
	case len(rules) == 0:
		s.fail("there is neither Regex nor Exclude")
	case op != "legacy" && excludes > 0 && excludes < len(rules):
		s.fail("Logical_Op cannot be used with both Regex and Exclude")
	}
	return func(r *Record) bool {
		if op == "legacy" {
			for i := range rules {
				if rules[i].matches(r) == rules[i].exclude {
					return false
				}
			}
			return true
		}
		found := 0
		for i := range rules {
			if rules[i].matches(r) {
				found++
			}
		}
		hit := found == len(rules) || op == "or" && found > 0
		return hit != rules[0].exclude
	}
}
