package cluster

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Back-off of an offering that the cloud had no capacity for: the first, and the longest.
const (
	firstBackoff = 45 * time.Second
	MostBackoff  = 10 * time.Minute
)

// backoff is one offering's.
type backoff struct {
	until time.Time
	wait  time.Duration
}

// offerings are those that the cloud had no capacity for lately.
type offerings struct {
	*hub
	exhausted map[model.OfferingKey]backoff
	version   int       // counts changes of what is exhausted
	next      time.Time // the earliest end of a back-off, zero if there is none
}

// MarkExhausted takes offerings out of the next snapshots: for 45 s the first time, twice as long each time that it
// happens again, at most 10 minutes. Saying it again while they are out changes nothing.
func (o *offerings) MarkExhausted(keys []model.OfferingKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, news := o.clock.Now(), false
	for _, k := range keys {
		b, known := o.exhausted[k]
		switch {
		case known && now.Before(b.until):
			continue
		case known && now.Sub(b.until) < MostBackoff:
			b.wait = min(2*b.wait, MostBackoff)
		default:
			b.wait = firstBackoff
		}
		b.until = now.Add(b.wait)
		o.exhausted[k] = b
		o.clock.AfterFunc(b.wait, o.poke)
		news = true
	}
	if news {
		o.changed(now)
		o.poke()
	}
}

// MarkAvailable says that an offering could be had: it counts again and its back-off starts anew.
func (o *offerings) MarkAvailable(k model.OfferingKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, known := o.exhausted[k]
	if !known {
		return
	}
	delete(o.exhausted, k)
	if now := o.clock.Now(); now.Before(b.until) {
		o.changed(now)
		o.poke()
	}
}

// BackIn is how long it is until the first of these offerings is tried again; 0 if one is not exhausted.
func (o *offerings) BackIn(keys []model.OfferingKey) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, least := o.clock.Now(), MostBackoff
	for _, k := range keys {
		least = min(least, max(o.exhausted[k].until.Sub(now), 0))
	}
	return least
}

// Unavailable is the offerings that are exhausted now. The map is the caller's.
func (o *offerings) Unavailable() map[model.OfferingKey]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	out := map[model.OfferingKey]bool{}
	for k, b := range o.exhausted {
		if now.Before(b.until) {
			out[k] = true
		}
	}
	return out
}

// changed counts a change and finds out when the next one comes by itself.
func (o *offerings) changed(now time.Time) {
	o.version++
	o.next = time.Time{}
	for k, b := range o.exhausted {
		switch {
		case now.Sub(b.until) > MostBackoff:
			delete(o.exhausted, k)
		case now.Before(b.until) && (o.next.IsZero() || b.until.Before(o.next)):
			o.next = b.until
		}
	}
}

// tick notes back-offs that have ended.
func (o *offerings) tick(now time.Time) {
	if !o.next.IsZero() && !now.Before(o.next) {
		o.changed(now)
	}
}

func (o *offerings) out(k model.OfferingKey, now time.Time) bool {
	b, ok := o.exhausted[k]
	return ok && now.Before(b.until)
}

// mark is the types with their exhausted offerings marked; types without any are shared.
func (o *offerings) mark(types []model.InstanceType, now time.Time) []model.InstanceType {
	if o.next.IsZero() {
		return types
	}
	out := types
	for i := range types {
		for j, f := range types[i].Offerings {
			k := model.OfferingKey{Type: types[i].Name, Zone: f.Zone, CapacityType: f.CapacityType}
			if !f.Available || !o.out(k, now) {
				continue
			}
			if &out[0] == &types[0] {
				out = slices.Clone(types)
			}
			if &out[i].Offerings[0] == &types[i].Offerings[0] {
				out[i].Offerings = slices.Clone(types[i].Offerings)
			}
			out[i].Offerings[j].Available, out[i].Offerings[j].RetryAt = false, o.exhausted[k].until
		}
	}
	return out
}
