package region

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// core holds what all parts of a region share: the lock, the clock, randomness, IDs, tags and the state file. mu
// guards all mutable state of every part.
type core struct {
	config Config
	clock  clock.Clock
	log    *slog.Logger
	store  *store

	mu       sync.Mutex
	closed   bool
	sequence uint64 // of the last new ID
	// tags holds changes to the tags of resources other than instances, by ID; a nil value marks a deleted tag.
	tags map[string]map[string]*string
}

func newCore(config Config, s *store) *core {
	return &core{config: config, clock: config.Clock, log: config.Log, store: s, tags: map[string]map[string]*string{}}
}

// commit makes the changes of a call durable.
func (c *core) commit() error {
	if err := c.store.commit(); err != nil {
		return apiError("InternalError", "state not saved: %v", err)
	}
	return nil
}

// commitBackground commits changes that no caller waits for; about names their subject in the log.
func (c *core) commitBackground(about ...any) {
	if err := c.commit(); err != nil {
		c.log.Error("region: state not saved", append(about, "error", err)...)
	}
}

// tagged returns the tags of a resource: its own, without those deleted and with those added later.
func (c *core) tagged(id string, own map[string]string) map[string]string {
	return retagged(own, c.tags[id])
}

// merged returns the union of maps; later maps win.
func merged(from ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range from {
		maps.Copy(out, m)
	}
	return out
}

// fixedID returns 17 hexadecimal digits drawn from words, the same in every run and for every seed.
func (c *core) fixedID(words ...string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(c.config.Name + "/" + strings.Join(words, "/")))
	return fmt.Sprintf("%x", h.Sum(nil))[:17]
}

// newID returns 17 hexadecimal digits that are unique in this region: 8 drawn from the seed, then 9 of an increasing
// sequence.
func (c *core) newID() string {
	c.sequence++
	c.store.put(bucketMeta, metaSequence, c.sequence)
	h := fnv.New128a()
	_, _ = fmt.Fprintf(h, "%s/%d/%d", c.config.Name, c.config.Seed, c.sequence)
	return fmt.Sprintf("%x%x", h.Sum(nil)[:4], c.sequence+0x100000000)[:17]
}

// sequencePart returns the increasing part of an ID.
func sequencePart(id string) string { return id[max(len(id)-9, 0):] }

// chance returns a number in [0, 1) drawn from the seed and the words.
func (c *core) chance(words ...string) float64 {
	x := uint64(14695981039346656037) // FNV-1a, in place: hash/fnv allocates, and spot prices need many numbers
	add := func(b byte) { x = (x ^ uint64(b)) * 1099511628211 }
	for shift := 0; shift < 64; shift += 8 {
		add(byte(c.config.Seed >> shift))
	}
	for _, w := range words {
		for i := range len(w) {
			add(w[i])
		}
		add(0)
	}
	// FNV leaves the high bits of short inputs similar: mix them (splitmix64's finalizer)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// normal returns a standard normal variate drawn from the seed and the words (Box–Muller).
func (c *core) normal(words ...string) float64 {
	u := 1 - c.chance(append(words, "u")...)
	v := c.chance(append(words, "v")...)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}
