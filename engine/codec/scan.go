package codec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// line is a declaration: its words, amounts and groups.
type line struct {
	number int
	words  []string
	values map[string]string
	groups map[string][]string // by name: the content of each
	used   map[string]bool
}

// scan joins continued lines and splits each into its parts.
func scan(text string) ([]*line, error) {
	var out []*line
	var joined []string
	var numbers []int
	for i, raw := range strings.Split(text, "\n") {
		raw, _, _ = strings.Cut(raw, "#")
		switch {
		case strings.TrimSpace(raw) == "":
		case (raw[0] == ' ' || raw[0] == '\t') && len(joined) > 0:
			joined[len(joined)-1] += " " + strings.TrimSpace(raw)
		default:
			joined, numbers = append(joined, strings.TrimSpace(raw)), append(numbers, i+1)
		}
	}
	for i, text := range joined {
		l, err := split(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", numbers[i], err)
		}
		l.number = numbers[i]
		out = append(out, l)
	}
	return out, nil
}

func split(text string) (*line, error) {
	l := &line{values: map[string]string{}, groups: map[string][]string{}, used: map[string]bool{}}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		end := strings.IndexAny(text, " (")
		if end >= 0 && text[end] == '(' {
			closing := strings.IndexByte(text, ')')
			if closing < 0 {
				return nil, fmt.Errorf("%q: the bracket is not closed", text)
			}
			name := text[:end]
			l.groups[name] = append(l.groups[name], text[end+1:closing])
			text = text[closing+1:]
			continue
		}
		word := text
		if end >= 0 {
			word = text[:end]
		}
		text = text[len(word):]
		if key, value, ok := strings.Cut(word, "="); ok {
			l.values[key] = value
		} else {
			l.words = append(l.words, word)
		}
	}
	return l, nil
}

func (l *line) value(key string) (string, bool) {
	l.used[key] = true
	v, ok := l.values[key]
	return v, ok
}

func (l *line) group(name string) []string {
	l.used[name] = true
	return l.groups[name]
}

// has reports whether a word stands after the line's kind and name.
func (l *line) has(word string) bool {
	l.used[word] = true
	for _, w := range l.words[min(2, len(l.words)):] {
		if w == word {
			return true
		}
	}
	return false
}

func list(content string) []string {
	var out []string
	for _, item := range strings.Split(content, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func lists(contents []string) []string { return list(strings.Join(contents, ",")) }

var shortKeys = map[string]string{
	"arch": model.LabelArch, "os": model.LabelOS, "zone": model.LabelZone, "capacity-type": model.LabelCapacityType,
	"type": model.LabelInstanceType, "pool": model.LabelPool,
}

func longKey(key string) string {
	if long, ok := shortKeys[key]; ok {
		return long
	}
	return key
}

func requirements(items []string) (model.Requirements, error) {
	var out []model.Requirement
	for _, item := range items {
		r, err := requirement(item)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...), nil
}

func requirement(item string) (model.Requirement, error) {
	text, minimum, counted := strings.Cut(item, "@")
	key, op, values := text, model.Exists, []string(nil)
	switch {
	case strings.HasPrefix(text, "!"):
		key, op = text[1:], model.DoesNotExist
	default:
		for _, s := range []struct {
			sign string
			op   model.Operator
		}{{"!=", model.NotIn}, {">=", model.Gte}, {"<=", model.Lte}, {">", model.Gt}, {"<", model.Lt}, {"=", model.In}} {
			if before, after, ok := strings.Cut(text, s.sign); ok {
				key, op, values = before, s.op, strings.Split(after, "|")
				break
			}
		}
	}
	r, err := model.NewRequirement(longKey(key), op, values...)
	if err == nil && counted {
		r.MinValues, err = strconv.Atoi(minimum)
	}
	if err != nil {
		return r, fmt.Errorf("requirement %q: %w", item, err)
	}
	return r, nil
}

// amount reads a quantity into the resource's unit: millicores, bytes or pieces.
func amount(resource, text string) (int64, error) {
	factor, number := 1.0, text
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"m", 0.001}} {
		if strings.HasSuffix(text, u.suffix) {
			factor, number = u.factor, strings.TrimSuffix(text, u.suffix)
			break
		}
	}
	if resource == "cpu" {
		factor *= 1000
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("%s=%q: not an amount", resource, text)
	}
	if n *= factor; math.Abs(n) >= math.MaxInt64 {
		return int64(math.Copysign(1, n)) * math.MaxInt64, nil
	}
	return int64(math.Round(n)), nil
}

func price(text string) (model.Price, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(n) > 1e9 {
		return 0, fmt.Errorf("price %q: not an amount of dollars an hour", text)
	}
	return model.Price(math.Round(n * 1e6)), nil
}

func taint(text string) (model.Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	if !ok {
		return model.Taint{}, fmt.Errorf("taint %q: want key=value:effect", text)
	}
	key, value, _ := strings.Cut(rest, "=")
	return model.Taint{Key: key, Value: value, Effect: model.Effect(effect)}, nil
}

func toleration(text string) model.Toleration {
	rest, effect, _ := strings.Cut(text, ":")
	key, value, equal := strings.Cut(rest, "=")
	if key == "*" {
		key = ""
	}
	return model.Toleration{Key: key, Value: value, Exists: !equal, Effect: model.Effect(effect)}
}
