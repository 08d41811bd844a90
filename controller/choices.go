package controller

import (
	"fmt"
	"math"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Choices are what a user may decide about decisions, as flags give them. Policy says what is wrong with them.
type Choices struct {
	PreferencePolicy string  // Priced, Respect or Ignore; Karpenter knows the last two
	MinValuesPolicy  string  // Strict or BestEffort
	PreferencePrice  float64 // dollars an hour for a preference of weight 100, when Priced
	NodeFee          float64 // dollars an hour
	SpotRisk         int     // percent
	PriorityCutoff   int32   // NoCutoff = none
}

// NoCutoff as a Choices.PriorityCutoff: machines are launched for pods of any priority.
const NoCutoff = math.MinInt32

// mostDollars an hour are more than any machine costs.
const mostDollars = 10_000

// Policy is the engine's of the choices; an error names the flag.
func (c Choices) Policy() (model.Policy, error) {
	var p model.Policy
	switch strings.ToLower(c.PreferencePolicy) {
	case "", "priced":
		p.Preferences = model.Priced
	case "respect":
		p.Preferences = model.Respect
	case "ignore":
		p.Preferences = model.Ignore
	default:
		return p, fmt.Errorf("--preference-policy %q: use Priced, Respect or Ignore", c.PreferencePolicy)
	}
	switch strings.ToLower(c.MinValuesPolicy) {
	case "", "strict":
		p.MinValues = model.Strict
	case "besteffort":
		p.MinValues = model.BestEffort
	default:
		return p, fmt.Errorf("--min-values-policy %q: use Strict or BestEffort", c.MinValuesPolicy)
	}
	for _, amount := range []struct {
		flag    string
		dollars float64
		into    *model.Price
	}{
		{"preference-price", c.PreferencePrice, &p.PreferencePrice}, {"node-fee", c.NodeFee, &p.NodeFee},
	} {
		if !(amount.dollars >= 0 && amount.dollars <= mostDollars) { // NaN is neither
			return p, fmt.Errorf("--%s %v: use dollars an hour from 0 to %d", amount.flag, amount.dollars, mostDollars)
		}
		*amount.into = model.Price(math.Round(amount.dollars * 1e6))
	}
	if c.SpotRisk < 0 || c.SpotRisk > 1000 {
		return p, fmt.Errorf("--spot-risk %d: use percent from 0 to 1000", c.SpotRisk)
	}
	p.SpotRisk = c.SpotRisk
	if c.PriorityCutoff != NoCutoff {
		p.PriorityCutoff, p.HasPriorityCutoff = c.PriorityCutoff, true
	}
	return p, nil
}
