package why

import (
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record"
)

// A pod that no longer exists was evicted only if its node's removal began.
func TestAPodThatIsGoneWasNotEvictedByWhatWasAbandoned(t *testing.T) {
	c, err := capture.Load(t.Context(), strings.NewReader(deleted), "deleted.yaml", capture.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	at := c.Snapshot().Now.Add(-5 * time.Minute)
	outcome := func(kind record.OutcomeKind, claim, text string) []record.Outcome {
		return []record.Outcome{{Of: "d", Kind: kind, Claim: claim, Text: text, Time: at.Add(time.Minute), Seconds: 60}}
	}
	for name, x := range map[string]struct {
		kind     record.Kind
		command  string
		outcomes []record.Outcome
		want     string
		evicted  bool
	}{
		"an abandoned command": {
			record.Replace, "cmd", outcome(record.Kept, "", "pod web-1 needs the node"),
			"its node was to be removed, which was abandoned: pod web-1 needs the node", false,
		},
		"a command that waits":          {record.Replace, "cmd", nil, "its node was to be removed: it is dear", false},
		"a command that began":          {record.Replace, "cmd", outcome(record.RemovalStarted, "", ""), "it was evicted: it is dear", true},
		"the node is terminated":        {record.Remove, "cmd", outcome(record.Terminated, "general-1", ""), "it was evicted: it is dear", true},
		"another node is terminated":    {record.Remove, "cmd", outcome(record.Terminated, "general-2", ""), "its node was to be removed: it is dear", false},
		"a removal without a command":   {record.Remove, "", nil, "it was evicted: it is dear", true},
		"the cloud takes the node away": {record.Terminate, "", nil, "it was evicted: it is dear", true},
	} {
		of := Subject{Kind: PodKind, Namespace: "shop", Name: "web-1"}
		r := record.Record{
			Decision: record.Decision{
				ID: "d", Time: at, Kind: x.kind, Command: x.command, Why: "it is dear",
				Removed: []record.RemovedNode{
					{Claim: "general-1", Node: "n1", Pods: []string{"shop/web-1"}}, {Claim: "general-2", Node: "n2"},
				},
			},
			Outcomes: x.outcomes,
		}
		q := newQuestion(c, c.Snapshot(), model.Policy{}, of)
		q.past.cached = &known{history: history{all: []record.Record{r}, about: []record.Record{r}}}
		if found, err := q.aboutGone(t.Context(), of); !found || err != nil ||
			q.a.Summary != "it no longer exists; the last decision about it, 5m ago: "+x.want {
			t.Errorf("%s: %q, %v; want %q", name, q.a.Summary, err, x.want)
		}
		if label := q.a.Facts[0].Label; (label == "evicted") != x.evicted {
			t.Errorf("%s: %+v", name, q.a.Facts)
		}
	}
}

// A Node may have the name of an earlier one: EC2 reuses addresses, of which names are made. What was decided about the
// earlier one is not told about the existing one.
func TestDecisionsOfAnEarlierNodeAreNotToldAboutTheExistingOne(t *testing.T) {
	launch := func(id, claim string) record.Record {
		return record.Record{
			Decision: record.Decision{ID: id, Kind: record.Launch, Launched: []record.LaunchedNode{{Claim: claim}}},
			Outcomes: []record.Outcome{{Of: id, Kind: record.Ready, Claim: claim, Node: "ip-10-0-0-7"}},
		}
	}
	removed := record.Record{Decision: record.Decision{
		ID: "removed", Kind: record.Remove, Removed: []record.RemovedNode{{Claim: "general-1", Node: "ip-10-0-0-7"}},
	}}
	planned := record.Record{Decision: record.Decision{
		ID: "planned", Kind: record.Replace, Removed: []record.RemovedNode{{Claim: "general-2", Node: "ip-10-0-0-7"}},
	}}
	all := []record.Record{launch("first", "general-1"), removed, launch("second", "general-2"), planned}
	for claim, want := range map[string]string{
		"general-2": "second planned",
		"":          "first removed second planned", // the Node is gone, or its NodeClaim is not known
	} {
		var got []string
		for _, r := range ofNode(all, "ip-10-0-0-7", claim) {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of NodeClaim %q: %q, want %q", claim, got, want)
		}
	}
}
