package gen

import (
	"encoding/json"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func text(t *testing.T, s *model.Snapshot) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCanonicalUndoesEveryShuffle(t *testing.T) {
	for seed := range uint64(100) {
		for _, s := range []*model.Snapshot{Random(seed), Constrained(seed)} {
			want := text(t, s)
			if got := text(t, model.Canonical(Shuffle(s, seed+7))); got != want {
				t.Fatalf("seed %d:\n%s\nbecame\n%s", seed, want, got)
			}
			if text(t, s) != want {
				t.Fatalf("seed %d: the shuffle changed its input", seed)
			}
		}
	}
}

func TestConstrainedMeetsEveryConstraint(t *testing.T) {
	met := map[string]int{}
	count := func(what string, n int) { met[what] += min(n, 1) }
	for seed := range uint64(200) {
		for _, shape := range Constrained(seed).Shapes {
			count("affinity", len(shape.Affinity))
			count("anti-affinity", len(shape.AntiAffinity))
			count("preferred pods", len(shape.PreferredPods))
			count("spread", len(shape.Spread))
			count("ports", len(shape.HostPorts))
			count("volumes", len(shape.Volumes))
			count("blocked", len(shape.Blocked))
			for _, r := range shape.Required {
				if r.Impossible() {
					count("impossible", 1)
				}
			}
		}
		p := Policy(seed)
		count("first fit", len(p.Solver))
		count("preferences "+string(p.Preferences), 1)
		if p.HasPriorityCutoff {
			count("cut-off", 1)
		}
	}
	for _, what := range []string{
		"affinity", "anti-affinity", "preferred pods", "spread", "ports", "volumes",
		"blocked", "impossible",
		"first fit", "preferences ", "preferences Respect", "preferences Ignore", "cut-off",
	} {
		if met[what] < 10 {
			t.Errorf("%s: %d times in 200 snapshots", what, met[what])
		}
	}
}

func TestDiverseIsAFifthOfEach(t *testing.T) {
	s := Diverse(1000, 400)
	if n := len(s.Pools[0].Types); n != 400 {
		t.Errorf("%d types", n)
	}
	met := map[string]int{}
	for _, p := range s.Pending {
		switch shape := s.Shapes[p.Shape]; {
		case len(shape.Spread) > 0:
			met["spread "+shape.Spread[0].Topology]++
		case len(shape.Affinity) > 0:
			met["affinity "+shape.Affinity[0].Topology]++
		case len(shape.AntiAffinity) > 0:
			met["anti-affinity "+shape.AntiAffinity[0].Topology]++
		default:
			met["plain"]++
		}
	}
	for _, kind := range []string{
		"plain", "spread " + model.LabelZone, "spread " + model.LabelHostname,
		"affinity " + model.LabelZone, "anti-affinity " + model.LabelHostname,
	} {
		if met[kind] != 200 {
			t.Errorf("%d of %s, want 200", met[kind], kind)
		}
	}
}
