// Package reason makes sentences of Reasons, launches and removals. It is the one place where that happens, so events,
// the command line and the web page say the same thing in the same words.
package reason

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Pod says why a pod gets nothing, in one sentence: each pool's answer, and the change after which it would get something.
func Pod(r model.Reason) string {
	if change := Change(r.Change); change != "" && r.Rule != model.RuleNoPool {
		return because(r) + "; " + change
	}
	return because(r)
}

func because(r model.Reason) string {
	switch r.Rule {
	case model.RuleNoPool:
		return "there is no node pool; create a NodePool to get machines"
	case model.RuleUnmodelled:
		return "has " + or(r.Detail, r.Object) + ", which is not supported yet"
	case model.RuleSteps:
		return "the search for machines was cut; the next round goes on"
	case model.RuleUnexplained:
		return "no node can be launched for it now; why is worked out after other pods"
	}
	if own := (model.PoolVerdict{Rule: r.Rule, Object: r.Object, Detail: r.Detail, Best: r.Best, BestOf: r.BestOf}); len(r.Pools) == 0 || r.Rule.BetweenPods() {
		return verdict(own)
	}
	parts := make([]string, len(r.Pools))
	for i, v := range r.Pools {
		parts[i] = Verdict(v)
	}
	if r.More > 0 {
		parts = append(parts, count(r.More, "other pool")+" cannot either")
	}
	return strings.Join(parts, "; ")
}

// Verdict says why a pool gives nothing to a pod, and names the pool.
func Verdict(v model.PoolVerdict) string {
	text := verdict(v)
	if strings.Contains(text, "pool "+v.Pool) {
		return text
	}
	return "pool " + v.Pool + ": " + text
}

func verdict(v model.PoolVerdict) string {
	pool := strings.TrimSpace("pool " + v.Pool)
	switch v.Rule {
	case model.RulePoolNotReady:
		return pool + " is not ready: " + v.Detail
	case model.RuleCatalog:
		return pool + " has no instance types; look at the conditions of its EC2NodeClass"
	case model.RuleTaint:
		return "does not tolerate taint " + v.Object
	case model.RuleRequirement:
		return requirement(v, pool)
	case model.RuleResource:
		return resource(v, pool)
	case model.RuleLimit:
		return limit(v, pool)
	case model.RuleCapacity:
		if v.Detail != "" {
			return "all offerings that fit are out of capacity for now; tried again are first " + v.Detail
		}
		return fmt.Sprintf("all offerings that fit are out of capacity for now (such as %s)", v.Object)
	case model.RuleMinValues:
		return fmt.Sprintf("minValues %s of %s cannot be kept, only %s left", v.Detail, v.Object, or(v.Best, "fewer are"))
	case model.RuleSteps:
		return pool + " has machines for it that the search did not come to"
	}
	if text := others(v); text != "" {
		return text
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Rule, v.Object, v.Detail))
}

func requirement(v model.PoolVerdict, pool string) string {
	switch {
	case strings.HasSuffix(v.Detail, " In []"):
		return fmt.Sprintf("its requirements on %s contradict each other", v.Object)
	case v.Object == model.NodeNameField:
		return fmt.Sprintf("wants a node by its name (%s), a new machine has another", strings.TrimPrefix(v.Detail, "field:"))
	}
	return fmt.Sprintf("no instance type or offering of %s has %s", pool, or(v.Detail, v.Object))
}

func resource(v model.PoolVerdict, pool string) string {
	switch {
	case v.Best != "" && v.BestOf == "":
		return fmt.Sprintf("needs %s %s, the policy's largest machine has %s", v.Object, v.Detail, v.Best)
	case v.Object == "":
		return fmt.Sprintf("no single instance type of %s has %s together", pool, v.Detail)
	case v.Best == "":
		return fmt.Sprintf("no instance type of %s has resource %s", pool, v.Object)
	}
	return fmt.Sprintf("needs %s %s, the largest type %s offers %s", v.Object, v.Detail, v.BestOf, v.Best)
}

func limit(v model.PoolVerdict, pool string) string {
	text := fmt.Sprintf("limit %s %s of %s is reached (%s used", v.Object, v.Detail, pool, or(v.Best, "0"))
	if v.BestOf != "" {
		text += "; the smallest type that fits is " + v.BestOf
	}
	return text + ")"
}

// Funnel says how many types each rule left, such as "812 types, 640 by Resource, 0 by Limit".
func Funnel(v model.PoolVerdict) string {
	parts := make([]string, len(v.Funnel))
	for i, f := range v.Funnel {
		parts[i] = fmt.Sprintf("%d by %s", f.Left, f.Rule)
		if f.Rule == model.RuleCatalog {
			parts[i] = count(f.Left, "type")
		}
	}
	return strings.Join(parts, ", ")
}

// Launch says what is launched, for whom, and what the next best would have cost.
func Launch(s *model.Snapshot, l model.Launch) string {
	whom := count(len(l.Pods), "pod")
	if len(l.Pods) == 0 {
		whom = "the replicas of its pool"
	}
	text := fmt.Sprintf("%s %s in %s at %s for %s (%s)", l.Chosen.Type, l.Chosen.CapacityType, l.Chosen.Zone,
		Dollars(l.Chosen.Price), whom, l.Requests.Amounts(s.ResourceNames))
	if i := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool }); i >= 0 {
		text += ", pool " + l.Pool
	}
	for _, x := range l.Relaxed {
		text += "; " + Relaxed(x)
	}
	if l.RunnerUp.Type == "" {
		return text + "; nothing else would do"
	}
	text += fmt.Sprintf("; next best %s, %s more", runnerUp(l), Dollars(l.RunnerUp.Price-l.Chosen.Price))
	if len(l.Types) > 1 {
		text += fmt.Sprintf("; %s may stand in", count(len(l.Types)-1, "other type"))
	}
	return text
}

// Relaxed says which minValues a launch does not keep.
func Relaxed(x model.Relaxed) string {
	return fmt.Sprintf("minValues of %s are lowered from %d to %d: more are not to be had", x.Key, x.From, x.To)
}

// runnerUp names the next best offering by what tells it from the chosen one.
func runnerUp(l model.Launch) string {
	text := l.RunnerUp.Type
	if c := l.RunnerUp.CapacityType; c != "" && c != l.Chosen.CapacityType {
		text += " " + c
	}
	if z := l.RunnerUp.Zone; z != "" && z != l.Chosen.Zone && l.RunnerUp.Type == l.Chosen.Type {
		text += " in " + z
	}
	return text
}

// Removal says which machine goes, why, and what that saves.
func Removal(s *model.Snapshot, r model.Removal) string {
	how := "no pod needs it"
	switch r.Method {
	case model.Drifted:
		how = "it is no longer as its pool and node class say"
	case model.Overprovisioned:
		how = "the pool has more machines than replicas"
	case model.Underutilized:
		how = "its pods cost less elsewhere"
	case model.Expired:
		how = "it is older than its pool's nodeless.sh/soft-expire-after"
	case model.CrowdedOut:
		how = "a DaemonSet's pod has no room on it"
	}
	text := fmt.Sprintf("%s of pool %s goes: %s", machine(s, r.Node), r.Pool, how)
	if r.Saves > 0 {
		text += ", saves " + Dollars(r.Saves)
	}
	return text
}

// machine names a machine and says what it is.
func machine(s *model.Snapshot, name string) string {
	if i := slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == name }); i >= 0 && s.Nodes[i].Type != "" {
		return name + " (" + strings.TrimSpace(s.Nodes[i].Type+" "+s.Nodes[i].CapacityType) + ")"
	}
	return name
}

// Kept says why a machine stays.
func Kept(k model.Kept) string {
	r := k.Reason
	why := fmt.Sprintf("%s %s %s", r.Rule, r.Object, r.Detail)
	if len(r.Group) > 0 {
		return k.Node + " stays: " + grouped(r)
	}
	switch r.Rule {
	case model.RuleBudget:
		why = fmt.Sprintf("the disruption budget of pool %s allows %s now", r.Object, r.Detail)
	case model.RuleDoNotDisrupt:
		why = r.Object + " must not be disrupted (karpenter.sh/do-not-disrupt)"
	case model.RuleTooYoung:
		why = fmt.Sprintf("consolidateAfter of pool %s is over in %s", r.Object, r.Detail)
	case model.RuleNever:
		why = "pool " + r.Object + " says consolidateAfter: Never"
	case model.RuleNeeded:
		why = "pods that wait have their place there"
		if r.Detail == "moving" {
			why = "pods that have to move have their place there"
		}
	case model.RuleNotInitialized:
		why = "it is not initialized yet"
	case model.RuleNoPool:
		why = "its pool " + r.Object + " is gone"
		if r.Object == "" {
			why = "it belongs to no NodePool"
		}
	default:
		if text := or(moves(r), wishes(r)); text != "" {
			why = text
		}
	}
	return k.Node + " stays: " + strings.TrimSpace(why)
}

// Dollars is a price as people read it, such as "$0.0425/h".
func Dollars(p model.Price) string { return PerHour(p.Dollars()) }

// PerHour is Dollars of an amount of dollars: with two to four decimals, which tell the cheapest types apart.
func PerHour(dollars float64) string {
	text := fmt.Sprintf("%.4f", dollars)
	for strings.HasSuffix(text, "0") && len(text)-strings.Index(text, ".") > 3 {
		text = text[:len(text)-1]
	}
	return "$" + text + "/h"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
