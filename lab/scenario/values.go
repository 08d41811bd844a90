package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

var shortKeys = map[string]string{
	"arch": model.LabelArch, "os": model.LabelOS, "zone": model.LabelZone, "capacity-type": model.LabelCapacityType,
	"type": model.LabelInstanceType, "pool": model.LabelPool, "region": model.LabelRegion, "hostname": model.LabelHostname,
	"node": model.NodeNameField,
}

// longKey returns the label key that a text stands for. A quoted text stands for itself.
func longKey(text string) string {
	if long, ok := shortKeys[text]; ok {
		return long
	}
	return leaf(text)
}

// requirements reads requirements on node labels, with short keys for the well-known ones.
func (l *line) requirements(items []string) model.Requirements { return l.allOf(items, longKey) }

// selecting reads requirements on labels of pods and namespaces.
func (l *line) selecting(items []string) model.Requirements { return l.allOf(items, leaf) }

func (l *line) allOf(items []string, key func(string) string) model.Requirements {
	var out []model.Requirement
	for _, item := range items {
		r, err := requirement(item, key)
		if err != nil {
			l.failf("requirement %q: %w", item, err)
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...)
}

func requirement(item string, key func(string) string) (model.Requirement, error) {
	text, minimum, counted := cut(item, "@")
	name, op, values := text, model.Exists, []string(nil)
	switch i := outside(text, "!<>="); {
	case i == 0 && text[0] == '!' && !strings.HasPrefix(text, "!="):
		name, op = text[1:], model.DoesNotExist
	case i >= 0:
		sign := text[i : i+1]
		if sign != "=" && strings.HasPrefix(text[i+1:], "=") {
			sign = text[i : i+2]
		}
		op = signs[sign]
		name, values = text[:i], leaves(parts(text[i+len(sign):], "|"))
	}
	if name = strings.TrimSpace(name); name == "" || outside(name, " \t{}:;,|") >= 0 {
		return model.Requirement{}, fmt.Errorf("%q is not a label key", name)
	}
	r, err := model.NewRequirement(key(name), op, values...)
	if err == nil && counted {
		r.MinValues, err = whole[int](minimum)
	}
	return r, err
}

var signs = map[string]model.Operator{
	"=": model.In, "!=": model.NotIn, ">": model.Gt, ">=": model.Gte, "<": model.Lt, "<=": model.Lte, "!": "!",
}

// units of amounts; of suffixes with the same ending, the longer comes first.
var units = []struct {
	suffix string
	factor int64
}{
	{"Ki", 1 << 10},
	{"Mi", 1 << 20},
	{"Gi", 1 << 30},
	{"Ti", 1 << 40},
	{"Pi", 1 << 50},
	{"Ei", 1 << 60},
	{"k", 1e3},
	{"M", 1e6},
	{"G", 1e9},
	{"T", 1e12},
	{"P", 1e15},
	{"E", 1e18},
}

// amount parses a quantity in the resource's unit: millicores, bytes or a count. It saturates.
func amount(resource, text string) (int64, error) {
	number, factor, parts := text, int64(1), resource == "cpu"
	for _, u := range units {
		if before, ok := strings.CutSuffix(text, u.suffix); ok {
			number, factor = before, u.factor
			break
		}
	}
	scale := float64(factor)
	if before, ok := strings.CutSuffix(text, "m"); ok {
		number, scale = before, 0.001
	}
	if parts {
		scale *= 1000
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && scale >= 1 && scale < 1<<62 {
		return (model.Resources{n}).Times(int64(scale))[0], nil
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%s=%q: not an amount", resource, text)
	}
	if n *= scale; math.Abs(n) >= math.MaxInt64 {
		return int64(math.Copysign(1, n)) * math.MaxInt64, nil
	}
	return int64(math.Round(n)), nil
}

// price reads dollars per hour; up to six decimals are exact.
func price(text string) (model.Price, error) {
	dollars, fraction, _ := strings.Cut(text, ".")
	if dollars != "" && len(fraction) <= 6 {
		if n, err := strconv.ParseInt(dollars+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64); err == nil {
			return model.Price(n), nil
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > 1e9 {
		return 0, fmt.Errorf("price %q: not an amount of dollars an hour", text)
	}
	return model.Price(math.Round(n * 1e6)), nil
}

var effects = []model.Effect{model.NoSchedule, model.PreferNoSchedule, model.NoExecute}

func (l *line) taints(group string) (out []model.Taint) {
	for _, item := range lists(l.group(group)) {
		rest, effect, ok := cut(item, ":")
		if !ok || !slices.Contains(effects, model.Effect(effect)) {
			l.failf("taint %q: want key=value:effect, effect one of %v", item, effects)
		}
		key, value, _ := cut(rest, "=")
		out = append(out, model.Taint{Key: leaf(key), Value: leaf(value), Effect: model.Effect(effect)})
	}
	return out
}

func (l *line) tolerations() (out []model.Toleration) {
	for _, item := range lists(l.group("tolerate")) {
		rest, effect, limited := cut(item, ":")
		if limited && !slices.Contains(effects, model.Effect(effect)) {
			l.failf("tolerate(%s): want key, key=value or *, and an effect of %v", item, effects)
		}
		key, value, equal := cut(rest, "=")
		if key == "*" {
			key = ""
		}
		out = append(out, model.Toleration{Key: leaf(key), Value: leaf(value), Exists: !equal, Effect: model.Effect(effect)})
	}
	return out
}

// labels reads labels of a pod or a namespace.
func (l *line) labels() (out []model.Label) {
	for _, item := range lists(l.group("labels")) {
		key, value, ok := cut(item, "=")
		if key = leaf(key); !ok || key == "" {
			l.failf("label %q: want key=value", item)
		}
		if _, twice := model.Value(out, key); twice {
			l.failf("label %q is given twice", key)
		}
		out = append(out, model.Label{Key: key, Value: leaf(value)})
	}
	slices.SortFunc(out, func(a, b model.Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (l *line) attachLimits() (out []model.AttachLimit) {
	for _, item := range lists(l.group("attach")) {
		driver, text, _ := cut(item, "=")
		n, err := whole[int64](text)
		if err != nil || driver == "" {
			l.failf("attach(%s): want driver=number", item)
		}
		if _, twice := model.AttachLimitOf(out, leaf(driver)); twice {
			l.failf("attach(%s): the driver is given twice", item)
		}
		out = append(out, model.AttachLimit{Driver: leaf(driver), Max: n})
	}
	slices.SortFunc(out, func(a, b model.AttachLimit) int { return strings.Compare(a.Driver, b.Driver) })
	return out
}
