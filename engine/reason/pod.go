// Package reason turns Reasons, launches and removals into sentences. Events, the command line and the web page all
// take them from here, and so use the same words.
//
// Sentences about a pod or a node leave out their subject, which the reader knows: "requests cpu 96; the largest type
// …".
package reason

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Pod says why a pod gets no node, in one sentence: each pool's answer, and the smallest change that would help.
func Pod(r model.Reason) string {
	if change := Change(r.Change); change != "" && r.Rule != model.RuleNoPool {
		return because(r) + "; " + change
	}
	return because(r)
}

func because(r model.Reason) string {
	switch r.Rule {
	case model.RuleNoPool:
		return "there is no NodePool whose node class Nodeless manages; create one to get nodes"
	case model.RuleUnmodelled:
		return "has " + or(r.Detail, r.Object) + ", which is not supported yet"
	case model.RuleSteps:
		return "the search for nodes reached its step limit and continues in the next cycle"
	case model.RuleUnexplained:
		return "no node can be launched for it now; the reason is worked out in a later cycle"
	}
	if len(r.Pools) == 0 || r.Rule.BetweenPods() {
		return verdict(model.PoolVerdict{Rule: r.Rule, Object: r.Object, Detail: r.Detail, Best: r.Best, BestOf: r.BestOf})
	}
	parts := make([]string, len(r.Pools))
	for i, v := range r.Pools {
		parts[i] = Verdict(v)
	}
	if r.More > 0 {
		parts = append(parts, Count(r.More, "other pool")+" cannot either")
	}
	return strings.Join(parts, "; ")
}

// Verdict says why a pool has no node for a pod, and names the pool.
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
		return pool + " has no instance types; check the conditions of its EC2NodeClass"
	case model.RuleTaint:
		return "does not tolerate taint " + v.Object
	case model.RuleRequirement:
		return requirement(v, pool)
	case model.RuleResource:
		return resource(v, pool)
	case model.RuleLimit:
		return limit(v, pool)
	case model.RuleZonalShift:
		text := "a zonal shift moves traffic away from " + v.Object
		if v.Detail != "" {
			text += " until " + v.Detail
		}
		return text + ", and the pod can run nowhere else"
	case model.RuleCapacity:
		if v.Detail != "" {
			return "all offerings that fit are out of capacity; the next retry is " + v.Detail
		}
		if v.Best == model.Reserved && v.BestOf != "" {
			return fmt.Sprintf("capacity reservation %s has free instances, but the pod cannot be placed on a new one of "+
				"them, and the pool has no other offering that fits", v.BestOf)
		}
		if v.Best == model.Reserved {
			return fmt.Sprintf("all instances of its capacity reservations that fit (%s) are in use, and the pool has no other "+
				"offering that fits", v.Object)
		}
		return fmt.Sprintf("all offerings that fit are out of capacity (such as %s)", v.Object)
	case model.RuleAddresses:
		return addresses(v, pool)
	case model.RulePreflight:
		return unaddressed(v)
	case model.RuleMinValues:
		return fmt.Sprintf("minValues %s of %s cannot be met (left: %s)", v.Detail, v.Object, or(v.Best, "fewer"))
	case model.RuleSteps:
		return pool + " was not searched to the end: the search reached its step limit"
	}
	if text := otherRule(v); text != "" {
		return text
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Rule, v.Object, v.Detail))
}

func requirement(v model.PoolVerdict, pool string) string {
	switch {
	case strings.HasSuffix(v.Detail, " In []"):
		return fmt.Sprintf("its requirements on %s contradict each other", v.Object)
	case v.Object == model.NodeNameField:
		return fmt.Sprintf("requires a node by its name (%s), and a new node has another name",
			strings.TrimPrefix(v.Detail, "field:"))
	}
	return fmt.Sprintf("no instance type or offering of %s has %s", pool, or(v.Detail, v.Object))
}

func resource(v model.PoolVerdict, pool string) string {
	switch {
	case v.Object == "":
		return fmt.Sprintf("no single instance type of %s has %s together", pool, v.Detail)
	case v.Best == "":
		return fmt.Sprintf("no instance type of %s has resource %s", pool, v.Object)
	}
	return fmt.Sprintf("requests %s %s; the largest type, %s, offers %s", v.Object, v.Detail, v.BestOf, v.Best)
}

// addresses is the sentence about a pool whose subnets are short: Detail is the fewest addresses that a node takes,
// BestOf the type, Best how many a node can get, Object the zones, Fragmented a subnet whose addresses are scattered.
// If that is enough for one node, nodes planned together need more.
func addresses(v model.PoolVerdict, pool string) string {
	least, _ := strconv.Atoi(v.Detail)
	if free, err := strconv.Atoi(v.Best); err == nil && least > 0 && free >= least {
		return fmt.Sprintf("the other nodes of this plan leave few addresses in %s (at most %s in a subnet); the pod is "+
			"planned for again once they are launched", or(v.Object, "its zones"), v.Best)
	}
	if s := v.Fragmented; s != nil {
		return fmt.Sprintf("a node of %s needs at least %s addresses of its subnet (%s), all but its own in free /28 "+
			"blocks, and no subnet in %s has more than %s of these; %s; reserve a range of it for prefixes (a subnet CIDR "+
			"reservation), or add subnets to its EC2NodeClass", pool, v.Detail, v.BestOf, v.Object, or(v.Best, "0"),
			fragmented(s))
	}
	return fmt.Sprintf("a node of %s needs at least %s addresses of its subnet (%s), and no subnet in %s has more than "+
		"%s free; add subnets to its EC2NodeClass, or lower the warm targets of DaemonSet kube-system/aws-node",
		pool, or(v.Detail, "2"), or(v.BestOf, "any type"), or(v.Object, "its zones"), or(v.Best, "0"))
}

// unaddressed is the sentence about a pool whose nodes would have too few addresses: BestOf is the type that comes
// nearest, Best how many pods it takes, Detail how many of them would have no address.
func unaddressed(v model.PoolVerdict) string {
	return fmt.Sprintf("a node of %s would take %s and have no address for %s of them, so none is launched "+
		"(--preflight=enforce); give nodes more addresses (ENABLE_PREFIX_DELEGATION of DaemonSet kube-system/aws-node), or "+
		"lower spec.kubelet.maxPods of the node class", or(v.BestOf, "any type"), plural(or(v.Best, "more"), "pod"),
		or(v.Detail, "some"))
}

func limit(v model.PoolVerdict, pool string) string {
	if v.Object == model.GroupMaximum {
		return fmt.Sprintf("the node group of %s has its maximum of %s", pool, plural(v.Detail, "node"))
	}
	if v.Object == "" { // the limits have room for this pod alone
		return fmt.Sprintf("the other nodes of this plan take what the limits of %s leave; the pod is planned for again "+
			"once they are launched", pool)
	}
	text := fmt.Sprintf("limit %s %s of %s is reached (%s used", v.Object, v.Detail, pool, or(v.Best, "0"))
	if v.BestOf != "" {
		text += "; the smallest type that fits is " + v.BestOf
	}
	return text + ")"
}

// otherRule is the sentence for the rules about other pods, volumes, ports and priority; "" for every other rule.
//
//	PodAffinity, PodAntiAffinity, TopologySpread  Object is the topology key; Detail the pods, such as "app In [db]"
//	HostPort     Object is the port, such as "TCP 8080"; Detail what uses it, if not a pod
//	Volume       Object is the volume; Detail where it can be; Best where its driver has too little storage
//	VolumeLimit  Object is the driver; Detail how many volumes are needed; Best how many a node takes
//	VolumeInUse  Object is the volume
//	Blocked      Detail is Shape.Blocked
//	Priority     Detail is the lowest priority for which nodes are launched
func otherRule(v model.PoolVerdict) string {
	switch v.Rule {
	case model.RuleBlocked:
		return or(v.Detail, v.Object)
	case model.RulePriority:
		if v.Detail == "" {
			return "no node is launched for pods of its priority"
		}
		return fmt.Sprintf("no node is launched for pods of a priority below %s", v.Detail)
	case model.RuleAffinity:
		return fmt.Sprintf("its required pod affinity cannot be met: no node can share %s with %s",
			or(v.Object, "a topology domain"), podsOf(v.Detail))
	case model.RuleAntiAffinity:
		return fmt.Sprintf("required pod anti-affinity, its own or another pod's, cannot be met: no node has a %s without %s",
			or(v.Object, "topology domain"), podsOf(v.Detail))
	case model.RuleSpread:
		return fmt.Sprintf("no node satisfies its topology spread over %s%s", or(v.Object, "topology domains"),
			bracket(v.Detail))
	case model.RuleHostPort:
		if v.Detail != "" {
			return fmt.Sprintf("host port %s is taken on every node by %s", v.Object, v.Detail)
		}
		return fmt.Sprintf("host port %s is taken on every node that it fits", v.Object)
	case model.RuleVolume:
		return volume(v)
	case model.RuleVolumeLimit:
		text := fmt.Sprintf("needs %s volumes of driver %s on one node", or(v.Detail, "more"), v.Object)
		if v.Best != "" {
			text += "; no node takes more than " + v.Best
		}
		return text
	case model.RuleVolumeInUse:
		return fmt.Sprintf("its ReadWriteOncePod volume %s is in use by another pod", v.Object)
	}
	return ""
}

// volume is the sentence about a volume that no node of a pool can reach.
func volume(v model.PoolVerdict) string {
	if devices, are := strings.CutPrefix(v.Object, model.DevicesOf); are {
		return fmt.Sprintf("only other nodes have the devices of %s that it requires%s", devices, bracket(v.Detail))
	}
	text := "no node can reach its volume " + v.Object
	if strings.Contains(v.Object, ", ") {
		text = "no node can reach all of its volumes " + v.Object
	}
	text += bracket(v.Detail)
	if v.Best != "" {
		text += "; " + v.Best + "; add storage there, or request less"
	}
	return text
}

func podsOf(detail string) string {
	if detail == "" {
		return "the pods that it names"
	}
	return "pods with " + detail
}

// Refusal says in a few words why an existing node does not take a pod. In addition to the model's rules it knows
// those of explain/query: Going, Cordoned and Full.
func Refusal(r model.Reason) string {
	switch r.Rule {
	case "Full":
		return "not enough " + r.Object + " left"
	case model.RuleResource:
		if r.Object == "" {
			return "not enough room"
		}
		return "too small: " + r.Object
	case model.RuleTaint:
		return "taint " + r.Object
	case model.RuleRequirement:
		return "not " + or(r.Detail, "as its selector requires")
	}
	if text, ok := refusals[r.Rule]; ok {
		return text
	}
	return strings.ToLower(string(r.Rule))
}

var refusals = map[model.Rule]string{
	"Going":                "being removed",
	model.RuleAffinity:     "pod affinity not met",
	model.RuleAntiAffinity: "pod anti-affinity violated",
	model.RuleSpread:       "topology spread violated",
	model.RuleHostPort:     "host port taken",
	model.RuleVolume:       "cannot reach its volume",
	model.RuleVolumeLimit:  "volume limit reached",
	model.RuleVolumeInUse:  "volume in use",
}
