package status

import (
	"testing"

	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPoolIsJudgedByItsLastFourLaunches(t *testing.T) {
	h := &health{}
	for i, step := range []struct {
		ok   bool
		want metav1.ConditionStatus
	}{
		{true, "True"},
		{false, "True"},
		{false, "False"},
		{true, "False"},
		{true, "False"},
		{true, "True"},
		{false, "True"},
		{false, "False"},
	} {
		if h.add(step.ok); h.verdict() != step.want {
			t.Errorf("after launch %d (%v) of %v it is %s, want %s", i+1, step.ok, h.outcomes, h.verdict(), step.want)
		}
	}
	if got := (&health{}).verdict(); got != "Unknown" {
		t.Errorf("without launches it is %s", got)
	}
}

func TestTheNextProcessKnowsHowLaunchesWent(t *testing.T) {
	for was, want := range map[metav1.ConditionStatus]metav1.ConditionStatus{
		"False": "False", "True": "True",
		"Unknown": "True",
	} {
		h := &health{}
		h.add(true) // a launch before the pool was first looked at
		h.restore(&opstatus.Condition{Status: was, Reason: "RegistrationFailed"})
		h.restore(&opstatus.Condition{Status: metav1.ConditionFalse})
		if h.verdict() != want {
			t.Errorf("condition %s, then a launch that went well: %s, want %s", was, h.verdict(), want)
		}
	}
	h := &health{}
	h.restore(nil)
	if h.verdict() != "Unknown" {
		t.Errorf("nothing known before: %s", h.verdict())
	}
}
