package controller

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

func TestChoicesBecomeAPolicy(t *testing.T) {
	for _, c := range []struct {
		choices Choices
		want    model.Policy
		wrong   string
	}{
		{Choices{PriorityCutoff: NoCutoff}, model.Policy{}, ""},
		{
			Choices{PreferencePolicy: "Respect", NodeFee: 0.01, SpotRisk: 10, PriorityCutoff: -10},
			model.Policy{
				Preferences: model.Respect, NodeFee: 10_000, SpotRisk: 10, PriorityCutoff: -10,
				HasPriorityCutoff: true,
			},
			"",
		},
		{Choices{PreferencePolicy: "ignore", PriorityCutoff: NoCutoff}, model.Policy{Preferences: model.Ignore}, ""},
		{
			Choices{PreferencePolicy: "Priced", PreferencePrice: 0.5, PriorityCutoff: NoCutoff},
			model.Policy{PreferencePrice: 500_000},
			"",
		},
		{Choices{MinValuesPolicy: "BestEffort", PriorityCutoff: NoCutoff}, model.Policy{MinValues: model.BestEffort}, ""},
		{Choices{MinValuesPolicy: "Loose"}, model.Policy{}, "--min-values-policy"},
		{Choices{PreferencePolicy: "Sometimes"}, model.Policy{}, "--preference-policy"},
		{Choices{NodeFee: math.NaN()}, model.Policy{}, "--node-fee"},
		{Choices{PreferencePrice: -1}, model.Policy{}, "--preference-price"},
		{Choices{SpotRisk: -1}, model.Policy{}, "--spot-risk"},
	} {
		got, err := c.choices.Policy()
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: error %v, want one about %s", c.choices, err, c.wrong)
			}
		} else if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v, %v", c.choices, got, err)
		}
	}
}
