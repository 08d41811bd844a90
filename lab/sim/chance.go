package sim

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// draw is a number from 0 to 1 (exclusive) that depends on the seed and on what it is drawn for, and on nothing else: whoever decides
// meets the same faults.
func (r *run) draw(what string, n ...uint64) float64 {
	h := fnv.New64a()
	var word [8]byte
	for _, v := range append(n, r.Seed) {
		for i := range word {
			word[i] = byte(v >> (8 * i))
		}
		_, _ = h.Write(word[:])
	}
	_, _ = h.Write([]byte(what))
	x := h.Sum64() // its low bits vary more than its high ones: mix (splitmix64's finalizer)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// bootTime is log-normal.
func (r *run) bootTime(m *machine) time.Duration {
	n := uint64(m.seq)
	normal := math.Sqrt(-2*math.Log(1-r.draw("boot", n))) * math.Cos(2*math.Pi*r.draw("boot too", n)) // Box–Muller
	return time.Duration(float64(r.Boot) * math.Exp(r.Spread*normal)).Round(time.Millisecond)
}

func (r *run) unlucky(m *machine) bool {
	return r.Faults.NotReady > 0 && r.draw("not ready", uint64(m.seq)) < r.Faults.NotReady
}

// dry reports whether the offering has no capacity in this hour.
func (r *run) dry(key model.OfferingKey) bool {
	if r.Faults.NoCapacity <= 0 {
		return false
	}
	return r.draw(key.Type+"/"+key.Zone+"/"+key.CapacityType, uint64(r.now/time.Hour)) < r.Faults.NoCapacity
}

// interruption is after how long a spot machine is interrupted, if it ever is.
func (r *run) interruption(m *machine) (time.Duration, bool) {
	if m.node.CapacityType != model.Spot || r.Faults.Interruptions <= 0 {
		return 0, false
	}
	hours := -math.Log(1-r.draw("interruption", uint64(m.seq))) / r.Faults.Interruptions
	return time.Duration(min(hours, 1e5) * float64(time.Hour)), true
}
