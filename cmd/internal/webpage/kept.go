package webpage

import (
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// kept caches an answer of the API server for a while, for all callers.
type kept[T any] struct {
	clock clock.Clock
	keep  time.Duration

	mu   sync.Mutex
	last *T // nil before the first answer
	at   time.Time
}

// get returns the cached answer, or reads a new one if that is too old. One caller reads at a time.
func (k *kept[T]) get(read func() (*T, error)) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil && k.clock.Now().Sub(k.at) < k.keep {
		return k.last, nil
	}
	out, err := read()
	if err != nil {
		return nil, err
	}
	k.last, k.at = out, k.clock.Now()
	return out, nil
}
