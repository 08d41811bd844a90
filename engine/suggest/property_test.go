package suggest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/suggest"
	"github.com/nodeless/nodeless/lab/gen"
)

// A suggested change, applied as a person would apply it from its text, makes the pod schedulable.
func TestAppliedChangePlacesThePod(t *testing.T) {
	named, made := map[model.Rule]int{}, 0
	for seed := range uint64(400) {
		s := gen.Random(seed)
		for _, pod := range s.Pending[:min(6, len(s.Pending))] {
			one := *s
			one.Pending = []model.Pod{pod}
			plan := engine.Provision(&one, model.Policy{})
			if len(plan.Unplaced) == 0 {
				continue
			}
			why := plan.Unplaced[0].Reason
			shape := &s.Shapes[pod.Shape]
			found := suggest.Smallest(&one, shape, nil, nil, &why)
			if found == (model.Change{}) {
				continue
			}
			named[found.Rule]++
			if reason.Change(found) == "" {
				t.Errorf("seed %d: no sentence for %+v", seed, found)
			}
			if again := suggest.Smallest(&one, shape, nil, nil, &why); again != found {
				t.Errorf("seed %d: %+v, then %+v", seed, found, again)
			}
			edited, ok := edit(&one, pod.Shape, found)
			if !ok {
				continue
			}
			made++
			if after := engine.Provision(edited, model.Policy{}); len(after.Unplaced) > 0 {
				t.Errorf("seed %d: %s, but %s\nbefore: %s", seed, reason.Change(found), reason.Pod(after.Unplaced[0].Reason),
					reason.Pod(why))
			}
		}
	}
	t.Logf("changes named: %v; %d made", named, made)
	if made < 100 {
		t.Errorf("only %d changes were made: %v", made, named)
	}
}

// edit applies the change, if this test supports its kind.
func edit(s *model.Snapshot, shape int, c model.Change) (*model.Snapshot, bool) {
	out := *s
	out.Shapes, out.Pools = slices.Clone(s.Shapes), slices.Clone(s.Pools)
	pod := &out.Shapes[shape]
	pod.Key = "changed"
	i := slices.IndexFunc(out.Pools, func(p model.Pool) bool { return p.Name == c.Pool })
	if i < 0 {
		return nil, false
	}
	pool := &out.Pools[i]
	switch c.Rule {
	case model.RuleTaint:
		text, effect, _ := strings.Cut(c.Object, ":")
		key, value, _ := strings.Cut(text, "=")
		pod.Tolerations = append(slices.Clone(pod.Tolerations), model.Toleration{
			Key: key, Value: value,
			Effect: model.Effect(effect),
		})
	case model.RuleResource:
		pod.Requests[slices.Index(s.ResourceNames, c.Object)] = parse(c.Object, c.To)
	case model.RuleLimit:
		name := strings.TrimPrefix(c.Object, "limit ")
		if name == "nodes" {
			pool.Limits.Nodes = parse(name, c.To)
		} else {
			pool.Limits.Max[slices.Index(s.ResourceNames, name)] = parse(name, c.To)
		}
	case model.RulePoolNotReady:
		pool.NotReady = ""
	case model.RuleRequirement:
		rs := slices.Clone(pod.Required)
		j := slices.IndexFunc(rs, func(r model.Requirement) bool { return r.Key == c.Object })
		if j < 0 || len(pod.AnyOf) > 0 {
			return nil, false // it may refer to one of several terms
		}
		rs[j] = model.OneOf(c.Object, c.To)
		if c.To == "" {
			rs = slices.Delete(rs, j, j+1)
		}
		pod.Required = rs
	default:
		return nil, false
	}
	return &out, true
}

func parse(resource, text string) int64 {
	unit := int64(1)
	if resource == "cpu" {
		unit = 1000
	}
	for suffix, n := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "m": 1} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = rest, n
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n * unit
}

// Every cluster gets an answer, and always the same one.
func TestConstrainedClustersAreAnswered(t *testing.T) {
	rules := []model.Rule{
		model.RuleBlocked, model.RuleAffinity, model.RuleAntiAffinity, model.RuleSpread, model.RuleResource, model.RuleVolume,
		model.RuleNoPool, model.RuleHostPort,
	}
	for seed := range uint64(100) {
		s := gen.Constrained(seed)
		for i := range s.Shapes[:min(5, len(s.Shapes))] {
			reason := model.Reason{Rule: rules[(int(seed)+i)%len(rules)]}
			a := suggest.Smallest(s, &s.Shapes[i], nil, nil, &reason)
			if b := suggest.Smallest(s, &s.Shapes[i], nil, nil, &reason); a != b {
				t.Errorf("seed %d: %+v, then %+v", seed, a, b)
			}
		}
	}
}
