package gates

import "testing"

func TestWhatIsNotNamedKeepsItsDefault(t *testing.T) {
	g, unknown, err := Parse("NodeRepair=true, CapacityBuffer=true,Future=true")
	if err != nil || !g.NodeRepair || !g.CapacityBuffer || !g.ReservedCapacity || g.StaticCapacity {
		t.Errorf("%v, %v", g, err)
	}
	if len(unknown) != 1 || unknown[0] != "Future" {
		t.Errorf("unknown gates: %v", unknown)
	}
}

func TestWhatIsNotABoolIsRefused(t *testing.T) {
	for _, s := range []string{"NodeRepair", "NodeRepair=perhaps", "=,"} {
		if _, _, err := Parse(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestGatesAreWrittenAsTheyAreRead(t *testing.T) {
	want := Gates{NodeRepair: true, NodeOverlay: true}
	if got, _, err := Parse(want.String()); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
}
