package solve

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

// Launch IDs are digests of this text, and NodeClaims are named after them. The text must not change, or a controller
// that is upgraded while claims are being written launches twice.
func TestLaunchIDsAreStable(t *testing.T) {
	for _, l := range []model.Launch{
		{},
		{
			Pool: "general", Types: []string{"m5.large"},
			Requests: model.Resources{model.CPU: 1500, model.Memory: 1 << 33, model.Pods: -1},
		},
		{
			Pool: "a \"b\"\n\x00é\xff", Types: []string{"m5.large", "", "c\t5"},
			Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "a"), model.OneOf("q", "\"")),
		},
	} {
		want := fmt.Sprintf("%q %q %q %v\n", l.Pool, l.Requirements.String(), l.Types, l.Requests)
		if got := string(identityOf(&l)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A StatefulSet's pod is recreated under its name: it must not get its predecessor's launch, and so its NodeClaim.
func TestPodUIDIsPartOfTheLaunchID(t *testing.T) {
	launch := func(uid string) model.Launch {
		return planFor(t, "pod db-0 cpu=1 uid="+uid).Launches[0]
	}
	if one, same, other := launch("u1").ID, launch("u1").ID, launch("u2").ID; one != same || one == other {
		t.Errorf("launch %s for a pod, %s for the same, %s for another of its name", one, same, other)
	}
}

func TestLaunchRequestsItsPodsAndDaemonsOnce(t *testing.T) {
	l := planFor(t, "daemon logs cpu=300m memory=1Gi\ndaemon agent cpu=100m\npods 2 web cpu=1").Launches[0]
	if want := (model.Resources{model.CPU: 2400, model.Memory: 1 << 30, model.Pods: 4}); l.Requests != want {
		t.Errorf("the launch asks for %v, want %v", l.Requests, want)
	}
}

// planFor plans a scenario with a single instance type.
func planFor(t *testing.T, pods string) model.Plan {
	t.Helper()
	s, policy, err := scenario.Parse("type c8 cpu=8 memory=16Gi pods=58 offers(a on-demand 0.4)\npool general\n" + pods)
	if err != nil {
		t.Fatal(err)
	}
	return Provision(s, policy).Plan
}
