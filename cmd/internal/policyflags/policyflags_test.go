package policyflags

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func TestFlagsBecomeAPolicy(t *testing.T) {
	for _, c := range []struct {
		choices Flags
		want    model.Policy
		wrong   string
	}{
		{Flags{PriorityCutoff: noCutoff}, model.Policy{}, ""},
		{
			Flags{PreferencePolicy: "Respect", NodeFee: 0.01, SpotRisk: 10, PriorityCutoff: -10},
			model.Policy{
				Preferences: model.Respect, NodeFee: 10_000, SpotRisk: 10, PriorityCutoff: -10,
				HasPriorityCutoff: true,
			},
			"",
		},
		{Flags{PreferencePolicy: "ignore", PriorityCutoff: noCutoff}, model.Policy{Preferences: model.Ignore}, ""},
		{
			Flags{PreferencePolicy: "Priced", PreferencePrice: 0.5, PriorityCutoff: noCutoff},
			model.Policy{PreferencePrice: 500_000},
			"",
		},
		{Flags{MinValuesPolicy: "BestEffort", PriorityCutoff: noCutoff}, model.Policy{MinValues: model.BestEffort}, ""},
		{Flags{MinValuesPolicy: "Loose"}, model.Policy{}, "--min-values-policy"},
		{Flags{PreferencePolicy: "Sometimes"}, model.Policy{}, "--preference-policy"},
		{Flags{NodeFee: math.NaN()}, model.Policy{}, "--node-fee"},
		{Flags{PreferencePrice: -1}, model.Policy{}, "--preference-price"},
		{Flags{SpotRisk: -1}, model.Policy{}, "--spot-risk"},
	} {
		got, err := c.choices.policy()
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: error %v, want one about %s", c.choices, err, c.wrong)
			}
		} else if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v, %v", c.choices, got, err)
		}
	}
}
