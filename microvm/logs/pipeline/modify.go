package pipeline

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// newRecordModifier returns the filter record_modifier, which adds and removes fields.
func newRecordModifier(s *section, _ map[string]*parser) (func(*Record) bool, error) {
	add := map[string]string{}
	for _, pair := range s.all("record") {
		key, value, ok := strings.Cut(pair, " ")
		if !ok {
			return nil, s.wrong("Record needs a key and a value")
		}
		add[key] = strings.TrimSpace(value)
	}
	remove := s.all("remove_key")
	allow := slices.Concat(s.all("allowlist_key"), s.all("whitelist_key"))
	if len(remove) > 0 && len(allow) > 0 {
		return nil, s.wrong("Remove_key and Allowlist_key together")
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
	}, nil
}

// step is a rule of the filter modify.
type step func(fields map[string]any)

// modifications are the rules of modify, with the number of their arguments.
var modifications = map[string]int{
	"set": 2, "add": 2, "remove": 1, "remove_wildcard": 1, "remove_regex": 1, "rename": 2, "hard_rename": 2, "copy": 2,
	"hard_copy": 2,
}

// newModify returns the filter modify, which applies its rules in order if all conditions hold.
func newModify(s *section, _ map[string]*parser) (func(*Record) bool, error) {
	var steps []step
	var conditions []func(map[string]any) bool
	for _, e := range s.Entries {
		n, known := modifications[e.Key]
		args := strings.SplitN(e.Value, " ", max(n, 1))
		switch {
		case e.Key == "condition":
			c, err := newCondition(s, strings.Fields(e.Value))
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, c)
		case !known:
			continue
		case len(args) != n || args[0] == "":
			return nil, s.wrong("%s takes %d words", e.Key, n)
		default:
			one, err := newStep(s, e.Key, append(args, "")[0], strings.TrimSpace(append(args, "")[1]))
			if err != nil {
				return nil, err
			}
			steps = append(steps, one)
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
	}, nil
}

// newStep returns a rule with the arguments a and b.
func newStep(s *section, kind, a, b string) (step, error) {
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
		return func(f map[string]any) { f[a] = b }, nil
	case "add":
		return func(f map[string]any) {
			if _, there := f[a]; !there {
				f[a] = b
			}
		}, nil
	case "remove":
		return func(f map[string]any) { delete(f, a) }, nil
	case "remove_wildcard":
		prefix := strings.TrimSuffix(a, "*")
		return func(f map[string]any) {
			maps.DeleteFunc(f, func(key string, _ any) bool { return strings.HasPrefix(key, prefix) })
		}, nil
	case "remove_regex":
		re, err := s.expression(kind, a)
		return func(f map[string]any) {
			maps.DeleteFunc(f, func(key string, _ any) bool { return re.MatchString(key) })
		}, err
	}
	return move(strings.HasPrefix(kind, "hard_"), strings.HasSuffix(kind, "copy")), nil
}

// newCondition returns a condition of modify.
func newCondition(s *section, words []string) (func(map[string]any) bool, error) {
	if len(words) < 2 {
		return nil, s.wrong("Condition needs a kind and a key")
	}
	kind, key := strings.ToLower(words[0]), words[1]
	value := strings.Join(words[2:], " ")
	var re *regexp.Regexp
	if strings.HasSuffix(kind, "_matches") || strings.HasSuffix(kind, "_match") {
		var err error
		if re, err = s.expression("condition", value); err != nil {
			return nil, err
		}
	}
	switch kind {
	case "key_exists":
		return func(f map[string]any) bool { _, ok := f[key]; return ok }, nil
	case "key_does_not_exist":
		return func(f map[string]any) bool { _, ok := f[key]; return !ok }, nil
	case "key_value_equals":
		return func(f map[string]any) bool { v, ok := f[key]; return ok && asText(v) == value }, nil
	case "key_value_does_not_equal":
		return func(f map[string]any) bool { v, ok := f[key]; return ok && asText(v) != value }, nil
	case "key_value_matches":
		return func(f map[string]any) bool { v, ok := f[key]; return ok && re.MatchString(asText(v)) }, nil
	case "key_value_does_not_match":
		return func(f map[string]any) bool { v, ok := f[key]; return ok && !re.MatchString(asText(v)) }, nil
	}
	return nil, s.wrong("the Condition %s is not carried out here, a key", words[0])
}

// newNest returns the filter nest, which moves fields into a map within the record, or out of it.
func newNest(s *section, _ map[string]*parser) (func(*Record) bool, error) {
	operation, err := s.oneOf("operation", "nest", "nest", "lift")
	if err != nil {
		return nil, err
	}
	wildcards, under, from := s.all("wildcard"), s.text("nest_under", ""), s.text("nested_under", "")
	add, cut := s.text("add_prefix", ""), s.text("remove_prefix", "")
	named := func(key string) string { return add + strings.TrimPrefix(key, cut) }
	if operation == "lift" {
		if from == "" {
			return nil, s.wrong("Nested_under is missing, a key")
		}
		return func(r *Record) bool {
			if m, ok := r.Fields[from].(map[string]any); ok {
				delete(r.Fields, from)
				for key, v := range m {
					r.Fields[named(key)] = v
				}
			}
			return true
		}, nil
	}
	if under == "" || len(wildcards) == 0 {
		return nil, s.wrong("Nest_under or Wildcard is missing, a key")
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
	}, nil
}
