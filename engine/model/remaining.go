package model

import (
	"math"
	"slices"
	"time"
)

// Unknown is the Remaining of pods of which nobody knows how old they are: long enough for everything.
const Unknown = time.Duration(math.MaxInt64)

// Remaining is for how long pods can be expected to be there still, half of them: what has run for so long will run
// for as long again. Measured on traces of batch and service clusters a pod's age is the best single predictor of
// what is left of its life (shared/reference/peers.md §4); for life times with a heavy tail, whose chance to be over
// falls with age as a/age, age is the median of what is left at a = 1. Pods whose age is not known count as old ones.
func Remaining(now time.Time, pods []Pod) time.Duration {
	ages := make([]time.Duration, 0, len(pods))
	for i := range pods {
		age := Unknown
		if created := pods[i].Created; !created.IsZero() {
			age = max(now.Sub(created), 0)
		}
		ages = append(ages, age)
	}
	if len(ages) == 0 {
		return Unknown
	}
	slices.Sort(ages)
	return ages[len(ages)/2]
}

// Handover is the time for which a node and its replacement are both paid: about what an EC2 instance takes from its
// launch to Ready and its predecessor to be drained.
const Handover = time.Minute

// Payback is after how long a command has saved what it costs: nodes that are paid twice while pods are handed
// over, and the pods' moves, which count for so many thousandths. It is Unknown where nothing is saved.
func (p *Policy) Payback(saves, launched Price, moves int64) time.Duration {
	if saves <= 0 {
		return Unknown
	}
	hours := Handover.Hours()*float64(max(launched, 0)) + float64(max(p.MovePrice, 0))*float64(max(moves, 0))/1000
	hours /= float64(saves)
	if hours >= Unknown.Hours() {
		return Unknown
	}
	return time.Duration(hours * float64(time.Hour)).Round(time.Second)
}
