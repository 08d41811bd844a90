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

// longKey returns the label key that a text stands for: itself if quoted.
func longKey(text string) string {
	if long, ok := shortKeys[text]; ok {
		return long
	}
	return leaf(text)
}

// requirements reads requirements on node labels, with short keys for the well-known ones.
func requirements(items []string) (model.Requirements, error) { return allOf(items, longKey) }

// selecting reads requirements on labels of pods and namespaces.
func selecting(items []string) (model.Requirements, error) { return allOf(items, leaf) }

func allOf(items []string, key func(string) string) (model.Requirements, error) {
	var out []model.Requirement
	for _, item := range items {
		r, err := requirement(item, key)
		if err != nil {
			return nil, fmt.Errorf("requirement %q: %w", item, err)
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...), nil
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

// units of amounts; of suffixes with the same end the longer comes first.
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

// amount reads a quantity in the resource's unit: millicores, bytes or pieces. It saturates.
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

func taints(items []string) ([]model.Taint, error) {
	var out []model.Taint
	for _, item := range items {
		rest, effect, ok := cut(item, ":")
		if !ok || !slices.Contains(effects, model.Effect(effect)) {
			return nil, fmt.Errorf("taint %q: want key=value:effect, effect one of %v", item, effects)
		}
		key, value, _ := cut(rest, "=")
		out = append(out, model.Taint{Key: leaf(key), Value: leaf(value), Effect: model.Effect(effect)})
	}
	return out, nil
}

func tolerations(items []string) ([]model.Toleration, error) {
	var out []model.Toleration
	for _, item := range items {
		rest, effect, limited := cut(item, ":")
		if limited && !slices.Contains(effects, model.Effect(effect)) {
			return nil, fmt.Errorf("tolerate(%s): want key, key=value or *, and an effect of %v", item, effects)
		}
		key, value, equal := cut(rest, "=")
		if key == "*" {
			key = ""
		}
		out = append(out, model.Toleration{Key: leaf(key), Value: leaf(value), Exists: !equal, Effect: model.Effect(effect)})
	}
	return out, nil
}

// labels reads labels of a pod or a namespace.
func labels(items []string) ([]model.Label, error) {
	var out []model.Label
	for _, item := range items {
		key, value, ok := cut(item, "=")
		if key = leaf(key); !ok || key == "" {
			return nil, fmt.Errorf("label %q: want key=value", item)
		}
		if _, twice := model.Value(out, key); twice {
			return nil, fmt.Errorf("label %q is given twice", key)
		}
		out = append(out, model.Label{Key: key, Value: leaf(value)})
	}
	slices.SortFunc(out, func(a, b model.Label) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

func attachLimits(items []string) ([]model.AttachLimit, error) {
	var out []model.AttachLimit
	for _, item := range items {
		driver, text, _ := cut(item, "=")
		n, err := whole[int64](text)
		if err != nil || driver == "" {
			return nil, fmt.Errorf("attach(%s): want driver=number", item)
		}
		if _, twice := model.AttachLimitOf(out, leaf(driver)); twice {
			return nil, fmt.Errorf("attach(%s): the driver is given twice", item)
		}
		out = append(out, model.AttachLimit{Driver: leaf(driver), Max: n})
	}
	slices.SortFunc(out, func(a, b model.AttachLimit) int { return strings.Compare(a.Driver, b.Driver) })
	return out, nil
}
