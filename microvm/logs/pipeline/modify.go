package pipeline

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// newRecordModifier returns the filter record_modifier, which adds and removes fields.
func newRecordModifier(s *section, _ map[string]*parser) func(*Record) bool {
	add := map[string]string{}
	for _, pair := range s.all("record") {
		key, value, ok := strings.Cut(pair, " ")
		if !ok {
			s.fail("Record needs a key and a value")
		}
		add[key] = strings.TrimSpace(value)
	}
	remove := s.all("remove_key")
	allow := slices.Concat(s.all("allowlist_key"), s.all("whitelist_key"))
	if len(remove) > 0 && len(allow) > 0 {
		s.fail("Remove_key and Allowlist_key cannot be used together")
	}
	return func(r *Record) bool {
		for _, key := range remove {
			delete(r.Fields, key)
		}
		if len(allow) > 0 {
			maps.DeleteFunc(r.Fields, func(key string, _ any) bool { return !slices.Contains(allow, key) })
		}
		for key, value := range add {
			r.Fields[key] = value
		}
		return true
	}
}

// step is a rule of the filter modify.
type step func(fields map[string]any)

// modifications are the rules of modify, with the number of their arguments.
var modifications = map[string]int{
	"set": 2, "add": 2, "remove": 1, "remove_wildcard": 1, "remove_regex": 1, "rename": 2, "hard_rename": 2, "copy": 2,
	"hard_copy": 2,
}

// newModify returns the filter modify, which applies its rules in order if all conditions hold.
func newModify(s *section, _ map[string]*parser) func(*Record) bool {
	var steps []step
	var conditions []func(map[string]any) bool
	for _, e := range s.Entries {
		n, known := modifications[e.Key]
		args := strings.SplitN(e.Value, " ", max(n, 1))
		switch {
		case e.Key == "condition":
			conditions = append(conditions, newCondition(s, strings.Fields(e.Value)))
		case !known:
			continue
		case len(args) != n || args[0] == "":
			s.fail("%s takes %d words", e.Key, n)
		default:
			steps = append(steps, newStep(s, e.Key, args[0], strings.TrimSpace(append(args, "")[1])))
		}
		s.ignore(e.Key)
	}
	return func(r *Record) bool {
		for _, c := range conditions {
			if !c(r.Fields) {
				return true
			}
		}
		for _, change := range steps {
			change(r.Fields)
		}
		return true
	}
}

// newStep returns a rule with the arguments a and b.
func newStep(s *section, kind, a, b string) step {
	move := func(hard, keep bool) step {
		return func(f map[string]any) {
			v, ok := f[a]
			if _, there := f[b]; !ok || there && !hard {
				return
			}
			if f[b] = v; !keep && a != b {
				delete(f, a)
			}
		}
	}
	switch kind {
	case "set":
		return func(f map[string]any) { f[a] = b }
	case "add":
		return func(f map[string]any) {
			if _, there := f[a]; !there {
				f[a] = b
			}
		}
	case "remove":
		return func(f map[string]any) { delete(f, a) }
	case "remove_wildcard":
		prefix := strings.TrimSuffix(a, "*")
		return func(f map[string]any) {
			maps.DeleteFunc(f, func(key string, _ any) bool { return strings.HasPrefix(key, prefix) })
		}
	case "remove_regex":
		re := s.expression(kind, a)
		return func(f map[string]any) {
			maps.DeleteFunc(f, func(key string, _ any) bool { return re.MatchString(key) })
		}
	}
	return move(strings.HasPrefix(kind, "hard_"), strings.HasSuffix(kind, "copy"))
}

// newCondition returns a condition of modify.
func newCondition(s *section, words []string) func(map[string]any) bool {
	if len(words) < 2 {
		s.fail("Condition needs a kind and a key")
		return nil
	}
	kind, key, value := strings.ToLower(words[0]), words[1], strings.Join(words[2:], " ")
	var re *regexp.Regexp
	if strings.HasSuffix(kind, "_matches") || strings.HasSuffix(kind, "_match") {
		re = s.expression("condition", value)
	}
	holds := map[string]func(v any, ok bool) bool{
		"key_exists":               func(_ any, ok bool) bool { return ok },
		"key_does_not_exist":       func(_ any, ok bool) bool { return !ok },
		"key_value_equals":         func(v any, ok bool) bool { return ok && asText(v) == value },
		"key_value_does_not_equal": func(v any, ok bool) bool { return ok && asText(v) != value },
		"key_value_matches":        func(v any, ok bool) bool { return ok && re.MatchString(asText(v)) },
		"key_value_does_not_match": func(v any, ok bool) bool { return ok && !re.MatchString(asText(v)) },
	}[kind]
	if holds == nil {
		s.fail("Condition %s is not supported", words[0])
	}
	return func(f map[string]any) bool {
		v, ok := f[key]
		return holds(v, ok)
	}
}

// newNest returns the filter nest, which moves fields into a map within the record, or out of it.
func newNest(s *section, _ map[string]*parser) func(*Record) bool {
	operation := s.oneOf("operation", "nest", "nest", "lift")
	wildcards, under, from := s.all("wildcard"), s.text("nest_under", ""), s.text("nested_under", "")
	add, cut := s.text("add_prefix", ""), s.text("remove_prefix", "")
	named := func(key string) string { return add + strings.TrimPrefix(key, cut) }
	if operation == "lift" {
		if from == "" {
			s.fail("Nested_under is missing")
		}
		return func(r *Record) bool {
			if m, ok := r.Fields[from].(map[string]any); ok {
				delete(r.Fields, from)
				for key, v := range m {
					r.Fields[named(key)] = v
				}
			}
			return true
		}
	}
	if under == "" || len(wildcards) == 0 {
		s.fail("Nest_under or Wildcard is missing")
	}
	return func(r *Record) bool {
		into := map[string]any{}
		for key, v := range r.Fields {
			if slices.ContainsFunc(wildcards, func(w string) bool { return matcher(w)(key) }) {
				into[named(key)] = v
				delete(r.Fields, key)
			}
		}
		if len(into) > 0 {
			r.Fields[under] = into
		}
		return true
	}
}
