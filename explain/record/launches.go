package record

import (
	"fmt"
	"slices"
	"time"
)

// priceOf returns the price of a launched node: of the offering that the cloud launched, else of the chosen one.
func priceOf(r *Record, b LaunchedNode) float64 {
	if o := r.Outcome(Ready, b.Claim); o != nil && o.Offer != nil && o.Offer.DollarsPerHour > 0 {
		return o.Offer.DollarsPerHour
	}
	return b.Chosen.DollarsPerHour
}

// laterLaunch is a node that might not have been needed if removed nodes had stayed.
type laterLaunch struct {
	at    time.Time
	pool  string
	price float64
}

// laterLaunches returns the nodes that a decision launched for pending pods. Replacements of an abandoned command
// count from the time at which it was abandoned.
func laterLaunches(r *Record) []laterLaunch {
	at := r.Time
	switch undone := r.Outcome(Kept, ""); {
	case r.Kind == Launch:
	case r.Kind == Replace && undone != nil:
		at = undone.Time
	default:
		return nil
	}
	var out []laterLaunch
	for _, b := range r.Launched {
		out = append(out, laterLaunch{at, b.Pool, priceOf(r, b)})
	}
	return out
}

// deductLaunches charges each launch to nodes of the same pool that were removed or about to be, in the order of their
// decisions: a node that is being drained has no room for the pods that the launched one runs.
func deductLaunches(credits []*credit, launches []laterLaunch) {
	byPool := map[string][]*credit{}
	for _, c := range credits {
		byPool[c.pool] = append(byPool[c.pool], c)
	}
	for _, open := range byPool {
		slices.SortStableFunc(open, func(a, b *credit) int { return a.decided.Compare(b.decided) })
	}
	slices.SortStableFunc(launches, func(a, b laterLaunch) int { return a.at.Compare(b.at) })
	for _, l := range launches {
		left := l.price
		open := byPool[l.pool]
		for len(open) > 0 && (open[0].left <= 0 || !l.at.Before(open[0].end)) {
			open = open[1:]
		}
		byPool[l.pool] = open
		for _, c := range open {
			if left <= 0 || c.decided.After(l.at) {
				break
			}
			if part := min(left, c.left); part > 0 && l.at.Before(c.end) {
				c.left -= part
				left -= part
				c.launches = append(c.launches, laterLaunch{l.at, l.pool, part})
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// countedWords writes equal words once, such as "2 m5.large".
func countedWords(words []string) []string {
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
