package apply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/events"
)

var (
	evening = time.Date(2026, 6, 3, 18, 0, 0, 0, time.UTC)
	webKey  = model.PodKey{Namespace: "default", Name: "web", UID: "u"}
)

// lonePod returns a podReporter and its events for one pending pod, default/web.
func lonePod() (*podReporter, *recorder) {
	e, w := &recorder{}, cluster.New(cluster.Options{})
	w.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}})
	return newPodReporter(New(Options{State: w, Recorder: e}).o), e
}

func TestAPodHearsOfAnotherMachineOnlyWhenTheFirstIsGone(t *testing.T) {
	r, e := lonePod()
	both := []model.Node{{Name: "a", Claim: "a", State: model.InFlight}, {Name: "b", Claim: "b", State: model.InFlight}}
	registered := []model.Node{{Name: "ip-1", Claim: "a", State: model.Registered}, both[1]}
	gone := []model.Node{{Name: "ip-1", Claim: "a", State: model.Registered, Deleting: true}, both[1]}
	for i, turn := range []struct {
		nodes []model.Node
		place string
	}{{both, "a"}, {both, "b"}, {registered, "ip-1"}, {registered, "b"}, {gone, "b"}} {
		s := &model.Snapshot{
			Now: evening.Add(time.Duration(i) * time.Second), Pending: []model.Pod{{PodKey: webKey}},
			Nodes: turn.nodes,
		}
		r.report(s, &model.Plan{Placements: []model.Placement{{Pod: webKey, Node: turn.place}}}, nil)
	}
	want := "[Nominated web Pod should schedule on: nodeclaim/a Nominated web Pod should schedule on: nodeclaim/b]"
	if got := fmt.Sprint(e.seen); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAReasonTooLongForAnEventKeepsWhatWouldHelp(t *testing.T) {
	r, e := lonePod()
	reason := model.Reason{
		Rule:   model.RuleTaint,
		Change: model.Change{Rule: model.RuleTaint, Object: "team=ünï:NoSchedule", Pool: "pool-7"},
	}
	for i := range 40 {
		reason.Pools = append(reason.Pools,
			model.PoolVerdict{Pool: fmt.Sprintf("pool-%d", i), Rule: model.RuleTaint, Object: "team=ünï:NoSchedule"})
	}
	r.report(&model.Snapshot{Now: evening, Pending: []model.Pod{{PodKey: webKey}}},
		&model.Plan{Unplaced: []model.Unplaced{{Pod: webKey, Reason: reason}}}, nil)
	if len(e.seen) != 1 {
		t.Fatalf("events: %v", e.seen)
	}
	message := strings.TrimPrefix(e.seen[0], "FailedScheduling web ")
	if len(message) > events.MaxMessage ||
		!strings.HasPrefix(message, "Failed to schedule pod, pool pool-0: does not tolerate") ||
		!strings.HasSuffix(message,
			"does not tolerate taint team=ünï:NoSchedule; …; would fit in pool pool-7 if it tolerated team=ünï:NoSchedule") {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}

// A plan is older than the latest events: a pod that was bound meanwhile is not reported.
func TestAPodThatIsBoundMeanwhileIsNoDisagreement(t *testing.T) {
	r, e := lonePod()
	for _, at := range []time.Duration{0, time.Minute} {
		if at > 0 {
			bound := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", UID: "u",
				ResourceVersion: "2",
			}}
			bound.Spec.NodeName = "n"
			r.o.State.Update(bound)
		}
		s := &model.Snapshot{
			Now: evening.Add(at), Pending: []model.Pod{{PodKey: webKey}},
			Nodes: []model.Node{{Name: "n", State: model.Initialized}},
		}
		r.report(s, &model.Plan{Placements: []model.Placement{{Pod: webKey, Node: "n"}}}, nil)
	}
	if len(e.seen) != 0 {
		t.Errorf("events: %v", e.seen)
	}
}
