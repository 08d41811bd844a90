package policyflags

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

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
			Flags{PreferencePolicy: "Respect", Prices: Prices{0.01, 2, 0.5}, PriorityCutoff: -10},
			model.Policy{
				Preferences: model.Respect, NodeFee: 10_000, WaitPrice: 2_000_000, MovePrice: 500_000, PriorityCutoff: -10,
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
		{Flags{Preflight: "Enforce", PriorityCutoff: noCutoff}, model.Policy{Preflight: model.Enforce}, ""},
		{Flags{Preflight: "strict"}, model.Policy{}, "--preflight"},
		{Flags{MinValuesPolicy: "Loose"}, model.Policy{}, "--min-values-policy"},
		{Flags{PreferencePolicy: "Sometimes"}, model.Policy{}, "--preference-policy"},
		{Flags{Prices: Prices{NodeFee: math.NaN()}}, model.Policy{}, "--node-fee"},
		{Flags{Prices: Prices{WaitPrice: -1}}, model.Policy{}, "--wait-price -1: use dollars per pod-hour from 0 to 10000"},
		{Flags{Prices: Prices{MovePrice: 1e9}}, model.Policy{}, "--move-price 1e+09: use dollars per evicted pod"},
		{Flags{Prices: Prices{MovePrice: math.Inf(1)}}, model.Policy{}, "--move-price"},
		{Flags{PreferencePrice: -1}, model.Policy{}, "--preference-price"},
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

func TestUntouchedFlagsAreTheDefaults(t *testing.T) {
	var flags Flags
	flags.Add(pflag.NewFlagSet("", pflag.ContinueOnError))
	got, _, err := flags.Resolve()
	if err != nil || !reflect.DeepEqual(got, model.Defaults()) {
		t.Errorf("got %+v, %v, want %+v", got, err, model.Defaults())
	}
}
