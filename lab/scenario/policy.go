package scenario

import "github.com/nodeless/nodeless/engine/model"

func policyFields(p *model.Policy) []field {
	return []field{
		number("max-types", &p.MaxTypes),
		number("max-steps", &p.MaxSteps),
		choice("solver", &p.Solver, []string{"staged", "first-fit"}, []model.Solver{model.Staged, model.FirstFit}),
		choice("preferences", &p.Preferences,
			[]string{"priced", "respect", "ignore"}, []model.Preferences{model.Priced, model.Respect, model.Ignore}),
		choice("min-values", &p.MinValues,
			[]string{"strict", "best-effort"}, []model.MinValues{model.Strict, model.BestEffort}),
		money("preference-price", &p.PreferencePrice),
		money("node-fee", &p.NodeFee),
		money("wait-price", &p.WaitPrice),
		money("move-price", &p.MovePrice),
		word("spot-to-spot", &p.SpotToSpot),
		number("max-what-ifs", &p.MaxWhatIfs),
		choice("preflight", &p.Preflight, []string{"off", "warn", "enforce"},
			[]model.Preflight{model.Unchecked, model.Warn, model.Enforce}),
		text("after", &p.After.Underutilized),
		text("after-drifted", &p.After.Drifted),
	}
}

func (p *parser) addPolicy(l *line) {
	p.once(l, "policy", "")
	policy := &p.policy
	l.fields(1, append(policyFields(policy), number("cutoff", &policy.PriorityCutoff))...)
	_, policy.HasPriorityCutoff = l.value("cutoff")
}
