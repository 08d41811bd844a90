package reason

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Refusal says in few words what a machine that is there has against a pod, of a Reason of engine/query: Going, Cordoned and Full are
// rules of its own.
func Refusal(r model.Reason) string {
	switch r.Rule {
	case "Going":
		return "going away"
	case "Cordoned":
		return "cordoned"
	case "Full":
		return "too little " + r.Object + " left"
	case model.RuleResource:
		if r.Object == "" {
			return "too little room"
		}
		return "too small: " + r.Object
	case model.RuleTaint:
		return "taint " + r.Object
	case model.RuleRequirement:
		return "not " + or(r.Detail, "as its selector wants")
	case model.RuleAffinity:
		return "not near the pods it needs"
	case model.RuleAntiAffinity:
		return "too near pods it must be apart from"
	case model.RuleSpread:
		return "against its topology spread"
	case model.RuleHostPort:
		return "host port taken"
	case model.RuleVolume:
		return "not where its volume is"
	case model.RuleVolumeLimit:
		return "takes no more volumes"
	case model.RuleVolumeInUse:
		return "its volume is in use"
	}
	return strings.ToLower(string(r.Rule))
}

// Candidate is an offering with its price, such as "m7g.large spot in us-west-2a at $0.031/h".
func Candidate(c model.Candidate) string {
	return fmt.Sprintf("%s %s in %s at %s", c.Type, c.CapacityType, c.Zone, Dollars(c.Price))
}
