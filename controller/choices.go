package controller

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Choices are what a user may decide about decisions, as flags give them. Policy says what is wrong with them.
type Choices struct {
	PreferencePolicy string        // Priced, Respect or Ignore; Karpenter knows the last two
	MinValuesPolicy  string        // Strict or BestEffort
	PreferencePrice  float64       // dollars an hour for a preference of weight 100, when Priced
	NodeFee          float64       // dollars an hour
	ChurnFee         float64       // dollars an hour; 0 = the engine's default, -1 = none
	ChurnSaving      int           // percent; 0 = the engine's default, -1 = none
	Patience         time.Duration // 0 = the engine's default, below that none
	SpotRisk         int           // percent
	PriorityCutoff   int32         // NoCutoff = none
}

// NoCutoff as a Choices.PriorityCutoff: machines are launched for pods of any priority.
const NoCutoff = math.MinInt32

// mostDollars an hour are more than any machine costs.
const mostDollars = 10_000

// mostPatience is more than any machine takes to be ready.
const mostPatience = 10 * time.Minute

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
		least   float64
		into    *model.Price
	}{
		{"preference-price", c.PreferencePrice, 0, &p.PreferencePrice}, {"node-fee", c.NodeFee, 0, &p.NodeFee}, {"churn-fee", c.ChurnFee, -1, &p.ChurnFee},
	} {
		if !(amount.dollars >= amount.least && amount.dollars <= mostDollars) { // NaN is neither
			return p, fmt.Errorf("--%s %v: use dollars an hour from %v to %d", amount.flag, amount.dollars, amount.least, mostDollars)
		}
		*amount.into = model.Price(math.Round(amount.dollars * 1e6))
	}
	if c.SpotRisk < 0 || c.SpotRisk > 1000 {
		return p, fmt.Errorf("--spot-risk %d: use percent from 0 to 1000", c.SpotRisk)
	}
	p.SpotRisk = c.SpotRisk
	if c.ChurnSaving < -1 || c.ChurnSaving > 100 {
		return p, fmt.Errorf("--churn-saving %d: use percent from 1 to 100, 0 for the default, or -1 for none", c.ChurnSaving)
	}
	p.ChurnSaving = c.ChurnSaving
	if c.Patience > mostPatience {
		return p, fmt.Errorf("--patience %s: use at most %s, 0 for the default, or -1s for none", c.Patience, mostPatience)
	}
	p.Patience = c.Patience
	if c.PriorityCutoff != NoCutoff {
		p.PriorityCutoff, p.HasPriorityCutoff = c.PriorityCutoff, true
	}
	return p, nil
}
