package model

// Effect is what a taint does to a pod that does not tolerate it.
type Effect string

// Taint effects.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps away pods that do not tolerate it.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// Toleration lets a pod onto nodes with a matching taint. An empty Key with Exists matches every taint, an empty
// Effect every effect.
type Toleration struct {
	Key, Value string
	Exists     bool // operator Exists; else Equal
	Effect     Effect
}

// Tolerates reports whether t matches the taint.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key == "" {
		return t.Exists
	}
	return t.Key == taint.Key && (t.Exists || t.Value == taint.Value)
}

// Untolerated returns the first taint with effect NoSchedule or NoExecute that no toleration matches, and whether
// there is one.
func Untolerated(taints []Taint, tolerations []Toleration) (Taint, bool) {
taints:
	for _, taint := range taints {
		if taint.Effect == PreferNoSchedule {
			continue
		}
		for _, t := range tolerations {
			if t.Tolerates(taint) {
				continue taints
			}
		}
		return taint, true
	}
	return Taint{}, false
}
