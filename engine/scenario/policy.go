package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

var solvers = map[string]model.Solver{"": model.Staged, "staged": model.Staged, "first-fit": model.FirstFit}

var preferences = map[string]model.Preferences{
	"": model.Priced, "priced": model.Priced, "respect": model.Respect, "ignore": model.Ignore,
}

var minValues = map[string]model.MinValues{"": model.Strict, "strict": model.Strict, "best-effort": model.BestEffort}

func (p *parser) addPolicy(l *line) (err error) {
	if err := p.once("policy", ""); err != nil {
		return err
	}
	policy := &p.policy
	if err := policyWords(l, policy); err != nil {
		return err
	}
	for _, f := range []struct {
		key string
		to  *int
	}{{"max-types", &policy.MaxTypes}, {"max-steps", &policy.MaxSteps}, {"spot-risk", &policy.SpotRisk}, {"max-what-ifs", &policy.MaxWhatIfs}} {
		if err := set(l, f.key, f.to); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		key string
		to  *model.Price
	}{{"preference-price", &policy.PreferencePrice}, {"node-fee", &policy.NodeFee}, {"move-price", &policy.MovePrice}} {
		if text, ok := l.value(f.key); ok {
			if *f.to, err = price(text); err != nil {
				return fmt.Errorf("%s: %w", f.key, err)
			}
		}
	}
	policy.SpotToSpot = l.says("spot-to-spot", 1)
	policy.After.Underutilized, _ = l.value("after")
	policy.After.Drifted, _ = l.value("after-drifted")
	_, policy.HasPriorityCutoff = l.value("cutoff")
	if err := set(l, "cutoff", &policy.PriorityCutoff); err != nil {
		return err
	}
	if policy.Largest, err = p.override(model.Resources{}, lists(l.group("largest"))); err != nil {
		return fmt.Errorf("largest: %w", err)
	}
	for _, item := range lists(l.group("performance")) {
		family, text, _ := cut(item, "=")
		percent, err := whole[int](text)
		if err != nil {
			return fmt.Errorf("performance(%s): want family=percent", item)
		}
		policy.Performance = append(policy.Performance, model.Performance{Family: leaf(family), Percent: percent})
	}
	slices.SortFunc(policy.Performance, func(a, b model.Performance) int { return strings.Compare(a.Family, b.Family) })
	return nil
}

// policyWords reads what has one of a few words.
func policyWords(l *line, policy *model.Policy) error {
	var ok bool
	text, _ := l.value("solver")
	if policy.Solver, ok = solvers[text]; !ok {
		return fmt.Errorf("solver=%s: want staged or first-fit", text)
	}
	text, _ = l.value("preferences")
	if policy.Preferences, ok = preferences[text]; !ok {
		return fmt.Errorf("preferences=%s: want priced, respect or ignore", text)
	}
	text, _ = l.value("min-values")
	if policy.MinValues, ok = minValues[text]; !ok {
		return fmt.Errorf("min-values=%s: want strict or best-effort", text)
	}
	return nil
}
