package cycle

import (
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// unexplained returns a plan that launches a node for one pod and leaves another pod unplaced.
func unexplained(*model.Snapshot, model.Policy) model.Plan {
	return model.Plan{
		Launches: []model.Launch{{ID: "l", Pods: []model.PodKey{{Name: "good"}}}},
		Unplaced: []model.Unplaced{{Pod: model.PodKey{Name: "hopeless"}, Reason: model.Reason{Rule: model.RuleUnexplained}}},
	}
}

func TestLaunchesComeBeforeExplanations(t *testing.T) {
	s, applied := newStage(), 0
	turns := begin(t, s, Options{Provision: unexplained, Explain: func(plan *model.Plan, _ func(int) bool) {
		applied = len(s.applied)
		plan.Unplaced[0].Reason.Rule = model.RuleTaint
	}})
	d := await(t, turns)
	if applied != 1 || s.applied[0].Unplaced[0].Reason.Rule != model.RuleUnexplained {
		t.Errorf("%d plans were applied when the first was explained: %+v", applied, s.applied)
	}
	if len(s.reported) != 1 || s.reported[0].Unplaced[0].Reason.Rule != model.RuleTaint ||
		d.Plan.Unplaced[0].Reason.Rule != model.RuleTaint {
		t.Errorf("reported is %+v, decided %+v: the explanation is missing", s.reported, d.Plan.Unplaced)
	}
}

func TestPodsThatComeInterruptExplanations(t *testing.T) {
	s := newStage()
	s.changed = make(chan struct{}, 1)
	var quiet, changed []bool
	ask := func(goOn func(int) bool) []bool {
		return []bool{goOn(minVerdicts - 1), goOn(minVerdicts), goOn(maxVerdicts - 1), goOn(maxVerdicts)}
	}
	turns := begin(t, s, Options{Provision: unexplained, Explain: func(_ *model.Plan, goOn func(int) bool) {
		if quiet != nil {
			return
		}
		quiet = ask(goOn)
		s.changed <- struct{}{}
		changed = ask(goOn)
	}})
	await(t, turns)
	if want := []bool{true, true, true, false}; !slices.Equal(quiet, want) {
		t.Errorf("while nothing changes it goes on: %v, want %v", quiet, want)
	}
	if want := []bool{true, false, false, false}; !slices.Equal(changed, want) {
		t.Errorf("once a pod has come it goes on: %v, want %v", changed, want)
	}
}

func TestAnExplanationThatFailsStopsNothing(t *testing.T) {
	s := newStage()
	turns := begin(t, s, Options{Provision: unexplained, Explain: func(*model.Plan, func(int) bool) { panic("no") }})
	d := await(t, turns)
	if len(s.applied) != 1 || len(d.Plan.Unplaced) != 1 || d.Plan.Unplaced[0].Reason.Rule != model.RuleUnexplained {
		t.Errorf("applied %d, decided %+v", len(s.applied), d.Plan.Unplaced)
	}
}
