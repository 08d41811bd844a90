package reason

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// others says what stands in the way beside the pools: other pods, volumes, ports, priority; "" for other rules.
//
// Of PodAffinity, PodAntiAffinity and TopologySpread, Object is the topology key and Detail says which pods, such as
// "app In [db]"; of HostPort, Object is the port, such as "TCP 8080", and Detail who has it, if not a pod; of Volume, Object is the volume and Detail where it can
// be; of VolumeLimit, Object is the driver, Detail how many are asked and Best how many can be; of VolumeInUse, Object is the
// volume; of Blocked, Detail is Shape.Blocked; of Priority, Detail is the least priority for which machines are launched.
func others(v model.PoolVerdict) string {
	switch v.Rule {
	case model.RuleBlocked:
		return "waits: " + or(v.Detail, v.Object)
	case model.RulePriority:
		if v.Detail == "" {
			return "no machine is launched for pods of its priority"
		}
		return fmt.Sprintf("no machine is launched for pods of a priority below %s", v.Detail)
	case model.RuleAffinity:
		return fmt.Sprintf("its required pod affinity cannot be kept: no machine can have the same %s as %s", or(v.Object, "place"), podsOf(v.Detail))
	case model.RuleAntiAffinity:
		return fmt.Sprintf("required pod anti-affinity, its own or another pod's, leaves no machine with %s apart from %s", or(v.Object, "a place"), podsOf(v.Detail))
	case model.RuleSpread:
		return fmt.Sprintf("no machine keeps its topology spread over %s%s", or(v.Object, "its topology"), bracket(v.Detail))
	case model.RuleHostPort:
		if v.Detail != "" {
			return fmt.Sprintf("host port %s is taken on every machine by %s", v.Object, v.Detail)
		}
		return fmt.Sprintf("host port %s is taken on every machine it could have", v.Object)
	case model.RuleVolume:
		if strings.Contains(v.Object, ", ") {
			return fmt.Sprintf("no machine can be where all of its volumes %s are%s", v.Object, bracket(v.Detail))
		}
		return fmt.Sprintf("no machine can be where its volume %s is%s", v.Object, bracket(v.Detail))
	case model.RuleVolumeLimit:
		text := fmt.Sprintf("needs %s volumes of driver %s on one machine", or(v.Detail, "more"), v.Object)
		if v.Best != "" {
			text += ", no machine takes more than " + v.Best
		}
		return text
	case model.RuleVolumeInUse:
		return fmt.Sprintf("its ReadWriteOncePod volume %s is in use by another pod", v.Object)
	}
	return ""
}

func podsOf(detail string) string {
	if detail == "" {
		return "the pods it names"
	}
	return "pods with " + detail
}

func bracket(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// Change says after which change a pod would have its place, such as "would fit if limit cpu of pool small were 12 instead
// of 10"; "" for the zero Change.
func Change(c model.Change) string {
	text := change(c)
	if c.Arch != "" {
		text += "; its image must be built for " + c.Arch
	}
	return text
}

func change(c model.Change) string {
	in := ""
	if c.Pool != "" {
		in = " in pool " + c.Pool
	}
	object := c.Object
	if object == model.NodeNameField {
		object = "metadata.name"
	}
	switch c.Rule {
	case model.RuleNoPool:
		return "would need a NodePool"
	case model.RuleLimit:
		return fmt.Sprintf("would fit if %s of pool %s were %s instead of %s", object, c.Pool, c.To, c.From)
	case model.RuleTaint:
		return fmt.Sprintf("would fit%s if it tolerated %s", in, object)
	case model.RuleRequirement:
		return label(c, object, in)
	case model.RuleResource:
		return fmt.Sprintf("would fit%s if it asked for %s %s instead of %s", in, object, c.To, c.From)
	case model.RulePoolNotReady:
		return fmt.Sprintf("would fit%s once the pool is ready", in)
	case model.RuleCapacity:
		return fmt.Sprintf("would fit%s once %s has capacity again", in, object)
	case model.RuleMinValues:
		return fmt.Sprintf("would fit if minValues of %s of pool %s were %s instead of %s", object, c.Pool, c.To, c.From)
	case model.RuleAffinity:
		return fmt.Sprintf("would fit%s if its pod affinity on %s were %s, not %s", in, object, c.To, c.From)
	case model.RuleAntiAffinity:
		return fmt.Sprintf("would fit%s if its pod anti-affinity on %s were %s, not %s", in, object, c.To, c.From)
	case model.RuleSpread:
		return fmt.Sprintf("would fit%s if its topology spread over %s were %s, not %s", in, object, c.To, c.From)
	case model.RuleBlocked:
		return fmt.Sprintf("would fit%s if %s were %s", in, object, c.To)
	case model.RuleHostPort:
		return fmt.Sprintf("would fit%s without host port %s", in, object)
	case model.RuleVolumeLimit:
		return fmt.Sprintf("would fit%s if it had %s volumes of driver %s instead of %s", in, c.To, object, c.From)
	case model.RuleVolumeInUse:
		return fmt.Sprintf("would fit%s once %s, which has volume %s for itself, has ended", in, c.From, object)
	case model.RulePriority:
		return fmt.Sprintf("would fit%s if its priority were %s or more", in, c.To)
	}
	return ""
}

// label says which value one requirement would have to allow.
func label(c model.Change, object, in string) string {
	if pools, ok := strings.CutPrefix(object, "requirement "); ok {
		return fmt.Sprintf("would fit if requirement %s of pool %s also allowed %s (now %s)", pools, c.Pool, c.To, c.From)
	}
	if c.To == "" {
		return fmt.Sprintf("would fit%s without %s %s", in, object, c.From)
	}
	if c.From == "In []" {
		c.From = "nothing"
	}
	return fmt.Sprintf("would fit%s if %s could be %s (now %s)", in, object, c.To, c.From)
}
