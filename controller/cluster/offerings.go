package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// Back-off of an offering for which the cloud had no capacity: the first and the longest.
const (
	firstBackoff = 45 * time.Second
	MostBackoff  = 10 * time.Minute
)

// backoff is the back-off of one offering.
type backoff struct {
	until time.Time
	wait  time.Duration
}

// exhaustedKey is an offering for launches of a class, or of all classes if class is the zero value.
type exhaustedKey struct {
	class cloud.ClassRef
	model.OfferingKey
}

// offerings tracks the offerings for which the cloud recently had no capacity, and the zones from which traffic is
// shifted away.
type offerings struct {
	*hub
	exhausted map[exhaustedKey]backoff
	shifted   map[string]time.Time // zones, and until when; the zero time if unknown
	version   int                  // counts changes
	next      time.Time            // the earliest end of a back-off, zero if there is none
}

// MarkExhausted makes offerings unavailable in the next snapshots, for pools of one class or, if class is the zero
// value, of all: for 45 s the first time, twice as long each further time, at most 10 minutes. Marking them again
// while they are unavailable changes nothing.
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

// MarkAvailable records that the cloud had capacity for an offering of a class: the offering counts again and its
// back-off starts anew.
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

// SetShiftedZones sets the zones from which traffic is shifted away, and until when: their offerings are unavailable
// in the next snapshots. The map is kept: do not change it.
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

// BackIn returns how long it is until the first of these offerings is tried again for a class; 0 if one is not
// exhausted.
func (o *offerings) BackIn(class cloud.ClassRef, keys []model.OfferingKey) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, least := o.clock.Now(), MostBackoff
	for _, k := range keys {
		least = min(least, max(o.until(class, k).Sub(now), 0))
	}
	return least
}

// until returns when an offering becomes available again for a class; the zero time, or a past one, if it is
// available.
func (o *offerings) until(class cloud.ClassRef, k model.OfferingKey) time.Time {
	return later(o.exhausted[exhaustedKey{class, k}].until, o.exhausted[exhaustedKey{OfferingKey: k}].until)
}

// Unavailable returns the offerings that are exhausted now for a class. The caller owns the map.
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

// changed counts a change and finds the earliest end of a back-off.
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

// tick handles back-offs that have ended.
func (o *offerings) tick(now time.Time) {
	if !o.next.IsZero() && !now.Before(o.next) {
		o.changed(now)
	}
}

// mark returns the types of a class with their exhausted and shifted offerings marked; types without any are shared.
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
