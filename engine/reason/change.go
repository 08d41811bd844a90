package reason

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Change says which change would make a pod fit, such as "would fit if limit cpu of pool small were 12 instead of
// 10"; "" for the zero Change.
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
		return fmt.Sprintf("would fit%s if it requested %s %s instead of %s", in, object, c.To, c.From)
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
		return fmt.Sprintf("would fit%s once %s, the only pod that may use volume %s, has ended", in, c.From, object)
	case model.RulePriority:
		return fmt.Sprintf("would fit%s if its priority were %s or higher", in, c.To)
	}
	return ""
}

// label says which value one requirement would have to allow.
func label(c model.Change, object, in string) string {
	if key, ok := strings.CutPrefix(object, "requirement "); ok {
		return fmt.Sprintf("would fit if requirement %s of pool %s also allowed %s (now %s)", key, c.Pool, c.To, c.From)
	}
	if c.To == "" {
		return fmt.Sprintf("would fit%s without %s %s", in, object, c.From)
	}
	if c.From == "In []" {
		c.From = "nothing"
	}
	return fmt.Sprintf("would fit%s if %s could be %s (now %s)", in, object, c.To, c.From)
}
