package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/cloud"
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

// exhaustedKey is an offering for launches of a class; of all classes, if that is the zero value.
type exhaustedKey struct {
	class cloud.ClassRef
	model.OfferingKey
}

// offerings are those that the cloud had no capacity for lately, and those in zones from which traffic is shifted away.
type offerings struct {
	*hub
	exhausted map[exhaustedKey]backoff
	shifted   map[string]time.Time // zones, and until when; the zero time if nobody knows
	version   int                  // counts changes of what is exhausted
	next      time.Time            // the earliest end of a back-off, zero if there is none
}

// MarkExhausted takes offerings out of the next snapshots, of pools of one class or, if that is the zero value, of all:
// for 45 s the first time, twice as long each time that it happens again, at most 10 minutes. Saying it again while
// they are out changes nothing.
func (o *offerings) MarkExhausted(class cloud.ClassRef, keys []model.OfferingKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, news := o.clock.Now(), false
	for _, key := range keys {
		k := exhaustedKey{class, key}
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

// MarkAvailable says that an offering could be had for a class: it counts again and its back-off starts anew.
func (o *offerings) MarkAvailable(class cloud.ClassRef, key model.OfferingKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	news, now := false, o.clock.Now()
	for _, k := range []exhaustedKey{{class, key}, {cloud.ClassRef{}, key}} {
		news = news || now.Before(o.exhausted[k].until)
		delete(o.exhausted, k)
	}
	if news {
		o.changed(now)
		o.poke()
	}
}

// SetShiftedZones says from which zones traffic is shifted away, and until when: their offerings are out of the next
// snapshots. The map is kept: do not change it.
func (o *offerings) SetShiftedZones(zones map[string]time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if maps.EqualFunc(o.shifted, zones, time.Time.Equal) {
		return
	}
	o.shifted = zones
	o.version++
	o.poke()
}

// BackIn is how long it is until the first of these offerings is tried again for a class; 0 if one is not exhausted.
func (o *offerings) BackIn(class cloud.ClassRef, keys []model.OfferingKey) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, least := o.clock.Now(), MostBackoff
	for _, k := range keys {
		least = min(least, max(o.until(class, k).Sub(now), 0))
	}
	return least
}

// until is when an offering counts again for a class; the zero time, or one that has passed, if it does.
func (o *offerings) until(class cloud.ClassRef, k model.OfferingKey) time.Time {
	return later(o.exhausted[exhaustedKey{class, k}].until, o.exhausted[exhaustedKey{OfferingKey: k}].until)
}

// Unavailable is the offerings that are exhausted now for a class. The map is the caller's.
func (o *offerings) Unavailable(class cloud.ClassRef) map[model.OfferingKey]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	out := map[model.OfferingKey]bool{}
	for k, b := range o.exhausted {
		if now.Before(b.until) && (k.class == class || k.class == cloud.ClassRef{}) {
			out[k.OfferingKey] = true
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

// mark is the types of a class with their exhausted and shifted offerings marked; types without any are shared.
func (o *offerings) mark(class cloud.ClassRef, types []model.InstanceType, now time.Time) []model.InstanceType {
	if o.next.IsZero() && len(o.shifted) == 0 {
		return types
	}
	out := types
	for i := range types {
		for j, f := range types[i].Offerings {
			k := model.OfferingKey{Type: types[i].Name, Zone: f.Zone, CapacityType: f.CapacityType}
			until, shifted := o.shifted[f.Zone]
			if !shifted {
				until = o.until(class, k)
			}
			if !shifted && (!f.Available || !now.Before(until)) {
				continue
			}
			if &out[0] == &types[0] {
				out = slices.Clone(types)
			}
			if &out[i].Offerings[0] == &types[i].Offerings[0] {
				out[i].Offerings = slices.Clone(types[i].Offerings)
			}
			f.Available, f.RetryAt, f.Shifted = false, until, shifted
			out[i].Offerings[j] = f
		}
	}
	return out
}
