// Package why explains why a pod is pending or runs where it does, why a node is kept or removed, and what a NodePool
// may launch. An answer is data, and text made from it. The package reads a cluster and queries the engine; it
// changes nothing.
package why

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record"
)

// Verdicts of an Answer.
const (
	Unschedulable = "Unschedulable" // no node can take the pod, and none is launched for it
	Launching     = "Launching"     // a node is, or has to be, launched for the pod; or the node itself is not ready yet
	HasRoom       = "HasRoom"       // a node has room for the pod: kube-scheduler has to bind it
	Placed        = "Placed"
	NoAddress     = "NoAddress" // the pod is on a node that has no IP address for it
	Ended         = "Ended"
	NotManaged    = "NotManaged" // Nodeless makes no decision about it
	Kept          = "Kept"
	Removing      = "Removing" // is being removed
	Due           = "Due"      // nothing keeps it: the controller removes it in its next cycle
	Ready         = "Ready"
	NotReady      = "NotReady"
	Gone          = "Gone"
)

// Answer explains one object. Facts are the whole explanation in words; the other fields hold the same as data.
type Answer struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Subject    Subject `json:"subject"`
	State      string  `json:"state"`
	Verdict    string  `json:"verdict"`
	Summary    string  `json:"summary"`
	Facts      []Fact  `json:"facts"`

	Reason   *Reason     `json:"reason,omitempty"`   // of a pod that gets nothing
	Change   *Change     `json:"change,omitempty"`   // the smallest change that would help
	Changes  []Change    `json:"changes,omitempty"`  // Change and up to two others, each sufficient on its own
	Pods     []PodAnswer `json:"pods,omitempty"`     // of a workload
	Launch   *Launch     `json:"launch,omitempty"`   // for a pod
	Launches []Launch    `json:"launches,omitempty"` // of a pool
	Node     string      `json:"node,omitempty"`     // of a pod
	Blockers []Blocker   `json:"blockers,omitempty"` // reasons to keep a node
	Then     string      `json:"then,omitempty"`     // what would happen to the node without Blockers

	// Decisions are the controller's records about the object, by time.
	Decisions []record.Record `json:"decisions,omitempty"`

	Server string `json:"server"`
}

// Fact is one line of an answer.
type Fact struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// question is the state of one explanation.
type question struct {
	c      *capture.Cluster
	s      *model.Snapshot
	policy model.Policy
	a      *Answer

	past *archive
}

func newQuestion(c *capture.Cluster, s *model.Snapshot, policy model.Policy, of Subject) *question {
	return &question{c: c, s: s, policy: policy, past: &archive{c: c}, a: &Answer{
		APIVersion: "nodeless.sh/v1alpha1", Kind: "Answer", Subject: of, Server: c.Server(), Facts: []Fact{},
	}}
}

// Ask explains one object. The error suggests similar names if it does not exist, or says what could not be read.
func Ask(ctx context.Context, c *capture.Cluster, policy model.Policy, of Subject) (*Answer, error) {
	q := newQuestion(c, c.Snapshot(), policy, of)
	found, err := q.about(ctx, of)
	if err != nil {
		return nil, err
	}
	if !found {
		if gone, err := q.aboutGone(ctx, of); !gone {
			return nil, q.unknown(of, err)
		}
	} else {
		if !of.Workload() { // the decisions are about its pods
			q.decided(ctx, of)
		}
		q.events(ctx, of)
	}
	for _, text := range c.Assumed() {
		q.say("assumed", text)
	}
	for _, gap := range c.Gaps() {
		q.say("unknown", gap.Error())
	}
	if q.a.Verdict != Gone {
		q.say("prices", c.Prices())
	}
	return q.a, nil
}

// about answers the question and reports whether the object exists.
func (q *question) about(ctx context.Context, of Subject) (bool, error) {
	switch of.Kind {
	case PodKind:
		return q.aboutPod(ctx, of), nil
	case NodeKind:
		return q.aboutNode(ctx, of.Name), nil
	case ClaimKind:
		return q.aboutClaim(ctx, of.Name), nil
	case PoolKind:
		return q.aboutPool(of.Name), nil
	}
	if of.Workload() {
		w := &workloadQuestion{q, of}
		found, err := w.answer(ctx)
		if found && workloads[of.Kind].kind == "CronJob" {
			w.nextRun(ctx)
		}
		return found, err
	}
	return false, fmt.Errorf("unknown kind %q: give a pod, a workload, a node, a nodeclaim or a nodepool", of.Kind)
}

// say adds a fact unless its text is empty.
func (q *question) say(label, text string) {
	if text != "" {
		q.a.Facts = append(q.a.Facts, Fact{label, text})
	}
}

// sayf is say with a format.
func (q *question) sayf(label, format string, args ...any) {
	q.say(label, fmt.Sprintf(format, args...))
}

// conclude sets the conclusion.
func (q *question) conclude(state, verdict, format string, args ...any) {
	q.a.State, q.a.Verdict = state, verdict
	q.a.Summary = format
	if len(args) > 0 {
		q.a.Summary = fmt.Sprintf(format, args...)
	}
}

// ago formats the time since at.
func (q *question) ago(at time.Time) string {
	if at.IsZero() {
		return "?"
	}
	return duration.HumanDuration(q.s.Now.Sub(at))
}

// funnel says how many types each rule left, and why none is left.
func funnel(v model.PoolVerdict) string {
	why := strings.TrimPrefix(reason.Verdict(v), "pool "+v.Pool+": ")
	if steps := reason.Funnel(v); steps != "" {
		return strings.ReplaceAll(steps, ", ", " → ") + ": " + why
	}
	return why
}
