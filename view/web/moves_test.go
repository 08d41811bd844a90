package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view/viewtest"
)

// planned returns a command that removes the node of a NodeClaim, the given number of minutes after the story began.
func planned(id, claim string, minutes int, to ...kept.Move) kept.Entry {
	return kept.Entry{Decision: &kept.Decision{
		ID: id, Time: viewtest.Now.Add(time.Duration(minutes) * time.Minute), Kind: kept.Replace, Method: "Underutilized",
		Command: id, Why: "its pods cost less elsewhere", Removed: []kept.RemovedNode{{Claim: claim, Moves: to}},
	}}
}

func outcome(of string, kind kept.OutcomeKind, claim string, minutes int) kept.Entry {
	at := viewtest.Now.Add(time.Duration(minutes) * time.Minute)
	return kept.Entry{Outcome: &kept.Outcome{Of: of, Kind: kind, Claim: claim, Time: at}}
}

// From the decision until the node is gone or kept, the page shows where its pods are planned to run.
func TestPlannedMovesAreToldUntilTheNodeIsGone(t *testing.T) {
	s := decides(t, &diary{entries: []kept.Entry{
		planned("first", "a", 1, kept.Move{To: "b", Pods: 3}, kept.Move{To: "new", Pods: 1}),
		outcome("first", kept.Kept, "", 3),
		planned("second", "a", 5, kept.Move{To: hostile, Pods: 2}),
		outcome("second", kept.RemovalStarted, "", 6), outcome("second", kept.Terminated, "other", 6),
		outcome("second", kept.Terminated, "a", 8),
		planned("empty", "c", 5),
	}})
	for minute, want := range map[int]string{
		0: `{}`, 2: `{"a":[{"pods":3,"to":"b"},{"pods":1,"to":"new"}]}`, 4: `{}`, 7: `"pods":2`, 9: `{}`,
	} {
		t1 := viewtest.Now.Add(time.Duration(minute) * time.Minute).UnixMilli()
		status, text := s.get(fmt.Sprint("/api/moves?t=", t1))
		if status != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "\x1b") {
			t.Errorf("after %d minutes: %d %s, want %s", minute, status, text, want)
		}
	}
	var many []kept.Entry
	for i := range mostMoving + 9 {
		many = append(many, planned(fmt.Sprint(i), fmt.Sprint("claim-", i), 5, kept.Move{To: "b", Pods: 1}))
	}
	s.decided.add(many)
	if _, text := s.get("/api/moves"); strings.Count(text, "claim-") != mostMoving || strings.Contains(text, `"a"`) {
		t.Errorf("now: %s", text)
	}
	if status, _ := s.get("/api/moves?t=x"); status != http.StatusBadRequest {
		t.Errorf("a moment that is no number: %d", status)
	}
	s.noDecisions = lacking("decisions and savings", "decisionlogs.nodeless.sh")
	if status, text := s.get("/api/moves"); status != http.StatusForbidden || strings.Contains(text, "claim-") {
		t.Errorf("whoever may not read decisions: %d %s", status, text)
	}
}
