package record

import (
	"fmt"
	"slices"
	"time"
)

// priceOf is what a machine costs that came: what the cloud gave, else what was chosen.
func priceOf(r *Record, b Bought) float64 {
	if o := r.Outcome(Ready, b.Claim); o != nil && o.Offer != nil && o.Offer.DollarsPerHour > 0 {
		return o.Offer.DollarsPerHour
	}
	return b.Chosen.DollarsPerHour
}

// launched is a machine that may not have been needed had others stayed.
type launched struct {
	at    time.Time
	pool  string
	price float64
}

// launchesOf are the machines that a decision launched for pods that waited; those of a command that was undone came
// for nothing, and are for such pods from then on.
func launchesOf(r *Record) []launched {
	at := r.Time
	switch undone := r.Outcome(Undone, ""); {
	case r.Kind == Launch:
	case r.Kind == Replace && undone != nil:
		at = undone.Time
	default:
		return nil
	}
	var out []launched
	for _, b := range r.Comes {
		out = append(out, launched{at, b.Pool, priceOf(r, b)})
	}
	return out
}

// take sets each launch against the machines of its pool that were gone by then, the oldest first.
func take(credits []*credit, launches []launched) {
	byPool := map[string][]*credit{}
	for _, c := range credits {
		byPool[c.pool] = append(byPool[c.pool], c)
	}
	for _, open := range byPool {
		slices.SortStableFunc(open, func(a, b *credit) int { return a.since.Compare(b.since) })
	}
	slices.SortStableFunc(launches, func(a, b launched) int { return a.at.Compare(b.at) })
	for _, l := range launches {
		left := l.price
		open := byPool[l.pool]
		for len(open) > 0 && (open[0].left <= 0 || !l.at.Before(open[0].end)) {
			open = open[1:]
		}
		byPool[l.pool] = open
		for _, c := range open {
			if left <= 0 || c.since.After(l.at) {
				break
			}
			if part := min(left, c.left); part > 0 && l.at.Before(c.end) {
				c.left -= part
				left -= part
				c.taken = append(c.taken, launched{l.at, l.pool, part})
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// counts writes equal words once, such as "2 m5.large".
func counts(words []string) []string {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	var out []string
	for w, k := range n {
		if k > 1 {
			w = fmt.Sprintf("%d %s", k, w)
		}
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}
