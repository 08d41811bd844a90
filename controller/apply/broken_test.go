package apply

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// refusing is an API server that rejects changes to NodeClaims but not their creation, as a webhook may.
type refusing struct{ client.Client }

func (r refusing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if _, claim := o.(*karpv1.NodeClaim); claim {
		return errors.New("a webhook says no")
	}
	return r.Client.Patch(ctx, o, p, opts...)
}

// A victim that cannot be marked looks like any other node. The same command and any other one for it are refused;
// each would launch another replacement.
func TestAVictimThatCannotBeMarkedIsNotReplacedTwice(t *testing.T) {
	r := enter(t, "100")
	a := r.occupied("a")
	r.restart(refusing{r.client})
	s := r.snapshot()
	c := r.replace(s, a)
	if done := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{c}}); len(done.Created) != 1 ||
		len(done.Errors) != 1 {
		t.Fatalf("begun: %+v", done)
	}
	other := c
	other.ID = "other"
	for _, c := range []model.Command{c, other} {
		s := r.snapshot()
		done := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{c}})
		if len(done.Created)+len(done.Existing) != 0 || len(done.Refused) != 1 {
			t.Errorf("command %s: %+v", c.ID, done)
		}
	}
	if n := len(r.claims()); n != 2 {
		t.Errorf("%d claims", n)
	}
}

// deleting is an API server on which another client deletes a NodeClaim as soon as another one is changed.
type deleting struct {
	client.Client
	changed, deleted string
}

func (d deleting) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := d.Client.Patch(ctx, o, p, opts...); err != nil || o.GetName() != d.changed {
		return err
	}
	other := &karpv1.NodeClaim{}
	other.Name = d.deleted
	return client.IgnoreNotFound(d.Delete(ctx, other))
}

// A command may be undone while its victims are being marked. The marked ones are released with it.
func TestACommandThatIsUndoneAtItsStartReleasesWhatItHasMarked(t *testing.T) {
	r := enter(t, "100")
	a, b := r.occupied("a"), r.occupied("b")
	r.restart(deleting{r.client, a, b})
	r.until("the claims are known", func() bool { return len(r.snapshot().Nodes) == 2 })
	s := r.snapshot()
	done := r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
	if len(done.Undone) != 1 || done.Undone[0].Why != "victim_changed" {
		t.Fatalf("begun: %+v", done)
	}
	r.expectMarks("", a)
	r.expectMarks("going ", b)
}

// forgetful is an API server whose responses to creations of NodeClaims are lost.
type forgetful struct {
	client.Client
	creates bool // whether the NodeClaim is created before the response is lost
}

func (f forgetful) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if f.creates {
		if err := f.Client.Create(ctx, o.DeepCopyObject().(client.Object), opts...); err != nil {
			return err
		}
	}
	return errors.New("http2: client connection lost")
}

// A claim whose creation seems to have failed is looked up: otherwise the next plan would launch another node.
func TestAClaimWhoseCreationWasNotAnsweredIsFound(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	r.restart(forgetful{r.client, true})
	s := r.snapshot()
	done := r.applier.Apply(t.Context(), s, r.plan(s))
	if len(done.Existing) != 1 || len(done.Errors)+len(done.Created) != 0 || len(r.claims()) != 1 {
		t.Fatalf("%+v, %d claims", done, len(r.claims()))
	}
	if again := r.plan(r.snapshot()); len(again.Launches) != 0 {
		t.Errorf("the next plan launches %d more", len(again.Launches))
	}
}

func TestAClaimThatWasNotCreatedIsAnError(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	r.restart(forgetful{r.client, false})
	s := r.snapshot()
	done := r.applier.Apply(t.Context(), s, r.plan(s))
	if len(done.Errors) != 1 || !strings.Contains(done.Errors[0].Error(), "client connection lost") || len(r.claims()) != 0 {
		t.Errorf("%+v, %d claims", done, len(r.claims()))
	}
}

// A command that has timed out and cannot be undone is not retried in a hot loop.
func TestACommandThatCannotBeUndoneMakesNoHotLoop(t *testing.T) {
	r := enter(t, "100")
	a := r.occupied("a")
	s := r.snapshot()
	r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a)}})
	r.restart(refusing{r.client})
	for _, wait := range []time.Duration{10 * time.Minute, 10 * time.Minute} {
		r.clock.Advance(wait)
		done, due := r.applier.Advance(t.Context(), r.snapshot(), still)
		if len(done.Errors) == 0 || len(done.Undone) != 0 {
			t.Fatalf("got %+v", done)
		}
		if !due.IsZero() && !due.After(r.clock.Now()) {
			t.Errorf("to be looked at again at %s, and it is %s", due, r.clock.Now())
		}
	}
}

// A victim carries the command while it drains, which may take hours. Victims that were released meanwhile are left
// alone.
func TestAVictimThatWasLetOffStaysSoWhileAnotherDrains(t *testing.T) {
	r := enter(t, "100")
	a, b := r.occupied("a"), r.occupied("b")
	s := r.snapshot()
	r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a, b)}})
	if err := r.client.Delete(t.Context(), r.claim(a)); err != nil {
		t.Fatal(err)
	}
	r.until("the world knows", func() bool { return r.state.Claim(a).DeletionTimestamp != nil })
	r.clock.Advance(10 * time.Minute)
	if done := r.turn(); len(done.Undone) != 1 {
		t.Fatalf("undone: %+v", done)
	}
	r.expectMarks("", b)
	for range 2 {
		if done := r.turn(); len(done.Undone)+len(done.Removed) != 0 {
			t.Errorf("again: %+v", done)
		}
	}
	r.expectMarks("", b)
	r.expectMarks(allMarks+"going ", a)
}

// A victim that is interrupted meanwhile keeps its taint when its command is undone.
func TestAVictimThatIsInterruptedStaysTainted(t *testing.T) {
	r := enter(t, "100")
	a := r.occupied("a")
	s := r.snapshot()
	r.applier.Apply(t.Context(), s, model.Plan{Commands: []model.Command{r.replace(s, a)}})
	claim := r.claim(a)
	claim.Annotations[translate.AnnotationInterrupted] = translate.Interruption("spot_interrupted", r.clock.Now())
	if err := r.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	r.until("the world knows", func() bool { return r.state.Claim(a).Annotations[translate.AnnotationInterrupted] != "" })
	r.clock.Advance(10 * time.Minute)
	if done := r.turn(); len(done.Undone) != 1 {
		t.Fatalf("undone: %+v", done)
	}
	r.expectMarks("taint ", a)
}

// A search that was cut off is no verdict about a node: no event says that it cannot be consolidated.
func TestASearchThatWasCutIsNoVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		why  model.Reason
		want string
	}{
		"cut before it began": {model.Reason{Rule: model.RuleSteps}, ""},
		"cut for a pod":       {model.Reason{Rule: model.RuleNoPlace, Detail: string(model.RuleSteps)}, ""},
		"cut in one pool": {model.Reason{
			Rule:  model.RuleNoPlace,
			Pools: []model.PoolVerdict{{Pool: "p", Rule: model.RuleSteps}},
		}, ""},
		"carried to its end":    {model.Reason{Rule: model.RuleNoPlace, Detail: string(model.RuleTaint)}, "Unconsolidatable"},
		"somebody's own wish":   {model.Reason{Rule: model.RuleDoNotDisrupt}, "DisruptionBlocked"},
		"it passes by itself":   {model.Reason{Rule: model.RuleNotInitialized}, ""},
		"the budget says so":    {model.Reason{Rule: model.RuleBudget}, ""},
		"nothing is cheaper":    {model.Reason{Rule: model.RuleNotCheaper}, "Unconsolidatable"},
		"it would take another": {model.Reason{Rule: model.RuleMoreNodes}, "Unconsolidatable"},
	} {
		if got, _ := keptEvent(&c.why); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
