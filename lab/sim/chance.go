package sim

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// chance draws boot times and faults.
type chance struct {
	seed   uint64
	boot   time.Duration // median
	spread float64       // standard deviation of the logarithm
	faults Faults
}

// draw returns a number in [0, 1) that depends only on the seed and on the arguments: every decider meets the same
// faults.
func (c *chance) draw(what string, n ...uint64) float64 {
	h := fnv.New64a()
	var word [8]byte
	for _, v := range append(n, c.seed) {
		for i := range word {
			word[i] = byte(v >> (8 * i))
		}
		_, _ = h.Write(word[:])
	}
	_, _ = h.Write([]byte(what))
	x := h.Sum64() // the low bits vary more than the high ones: mix (splitmix64's finalizer)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// bootTime returns the log-normally distributed time that a node takes to boot.
func (c *chance) bootTime(n *node) time.Duration {
	seq := uint64(n.seq)
	normal := math.Sqrt(-2*math.Log(1-c.draw("boot", seq))) * math.Cos(2*math.Pi*c.draw("boot too", seq)) // Box–Muller
	return time.Duration(float64(c.boot) * math.Exp(c.spread*normal)).Round(time.Millisecond)
}

func (c *chance) neverReady(n *node) bool {
	return c.faults.NotReady > 0 && c.draw("not ready", uint64(n.seq)) < c.faults.NotReady
}

// dry reports whether the offering has no capacity in this hour.
func (c *chance) dry(key model.OfferingKey, now time.Duration) bool {
	if c.faults.NoCapacity <= 0 {
		return false
	}
	return c.draw(key.Type+"/"+key.Zone+"/"+key.CapacityType, uint64(now/time.Hour)) < c.faults.NoCapacity
}

// interruption returns the time after which a spot instance is interrupted, and whether it ever is.
func (c *chance) interruption(n *node) (time.Duration, bool) {
	if n.CapacityType != model.Spot || c.faults.Interruptions <= 0 {
		return 0, false
	}
	hours := -math.Log(1-c.draw("interruption", uint64(n.seq))) / c.faults.Interruptions
	return time.Duration(min(hours, 1e5) * float64(time.Hour)), true
}
