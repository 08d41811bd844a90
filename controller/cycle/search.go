package cycle

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// How often machines are looked at.
const (
	// LookAgain is how long the same machines are not looked at again when nothing has changed; budgets, prices and the
	// clock may have by then (as Karpenter).
	LookAgain = 5 * time.Minute
	// goOn is the pause between two pieces of a search for cheaper machines: pods that come meanwhile are answered first.
	goOn = 20 * time.Millisecond
	// AfterLaunch is how long no such search is made after machines were launched: the answer would be about a cluster
	// that is about to change. Where there is always something launched, a piece is searched every mostPause.
	AfterLaunch = time.Second
	mostPause   = 10 * time.Second
	// rests is how many times as long as a piece took none is searched after it: what saves money may wait for a
	// processor that is busy.
	rests = 2
	// RipenAtLeast is how long a search rests at least that was at its end, when all it waits for is that pods get older.
	RipenAtLeast = time.Minute
)

// search is the search for machines that are not worth their price. It goes round the machines in pieces, and rests
// while nothing has changed since it was last at its end.
type search struct {
	last     *model.Snapshot // that was looked at; nil = it is worth another look
	at       time.Time       // when
	kept     []model.Kept    // what was said of the machines then
	after    model.Cursor    // where it stopped, the zero value if it came to the end
	again    time.Time       // when pods that were too young to be moved are old enough; zero if there are none
	launched time.Time       // when machines were last launched for pods
	searched time.Time       // when a piece was last searched, or the first might have been
	rest     time.Time       // until when none is searched, for the time that the last one took
	held     bool            // a piece was due when there was last a look, and not searched
}

// noWhatIfs asks the engine for what costs no search only.
const noWhatIfs = -1

// policy is the policy for the next piece, and whether there is any use in one.
func (c *search) policy(s *model.Snapshot, p model.Policy) (model.Policy, bool) {
	if c.searched.IsZero() {
		c.searched = s.Now
	}
	p.After = c.after
	if c.pausing(s.Now) {
		p.MaxWhatIfs = noWhatIfs
	}
	return p, c.last == nil || c.after != (model.Cursor{}) || !s.Now.Before(c.at.Add(LookAgain)) ||
		changed(c.last, s) || fellDue(c.last, s) || c.ripe(s.Now)
}

func (c *search) pausing(now time.Time) bool {
	return now.Before(later(c.launched.Add(AfterLaunch), c.rest)) && now.Before(c.searched.Add(mostPause))
}

// looked notes what the piece came to, and when that was known; done is whether all of it could be carried out.
func (c *search) looked(s *model.Snapshot, p *model.Plan, known time.Time, done bool) {
	c.last, c.at, c.kept = s, s.Now, merged(c.kept, p.Kept)
	c.held = c.pausing(s.Now)
	if !c.held {
		c.after, c.searched, c.again = p.After, s.Now, ripening(c.again, p.RecheckAt, s.Now)
		c.rest = known.Add(min(rests*known.Sub(s.Now), mostPause))
	}
	if !done || c.held {
		c.last = nil
	}
}

// merged is why machines stay: what is new, and of those that this piece did not come to what was said before.
func merged(before, now []model.Kept) []model.Kept {
	said := map[string]model.Reason{}
	for _, k := range before {
		said[k.Node] = k.Reason
	}
	out := slices.Clone(now)
	for i := range out {
		if reason, ok := said[out[i].Node]; ok && out[i].Reason.Rule == model.RuleSteps {
			out[i].Reason = reason
		}
	}
	return out
}

// due is when the next piece is to be made though nothing changes; zero if that is later than any resync.
func (c *search) due(now time.Time) time.Time {
	if resume := c.launched.Add(AfterLaunch); now.Before(resume) {
		return resume
	}
	switch between := c.after != (model.Cursor{}); {
	case now.Before(c.rest) && (c.held || between):
		return c.rest
	case between:
		return now.Add(goOn)
	}
	return c.again
}

// ripe reports whether pods that were too young to be moved may be old enough by now.
func (c *search) ripe(now time.Time) bool { return !c.again.IsZero() && !now.Before(c.again) }

// ripening is when to look again for pods that were too young: at the earlier of the two times, but not at every
// machine's own. What a piece before said is over once it is past.
func ripening(before, next, now time.Time) time.Time {
	if before.After(now) {
		next = Sooner(before, next)
	}
	if next.IsZero() {
		return next
	}
	return later(next, now.Add(RipenAtLeast))
}

// changed reports whether a snapshot shows another cluster than the one before. Snapshots share what has not changed,
// so that this costs nothing.
func changed(a, b *model.Snapshot) bool {
	return !same(a.Nodes, b.Nodes) || !same(a.Pending, b.Pending) || !same(a.Expected, b.Expected) ||
		!same(a.Shapes, b.Shapes) || !same(a.Daemons, b.Daemons) ||
		!same(a.Namespaces, b.Namespaces) || !samePools(a.Pools, b.Pools)
}

func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// samePools compares what pools allow and offer; what their machines add up to follows from the machines.
func samePools(a, b []model.Pool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || x.Disruption != y.Disruption || x.NotReady != y.NotReady || x.Replicas != y.Replicas ||
			x.Limits != y.Limits ||
			x.Weight != y.Weight || !same(x.Types, y.Types) {
			return false
		}
	}
	return true
}

// fellDue reports whether a machine became old enough to be looked at since.
func fellDue(a, b *model.Snapshot) bool {
	due, ok := NextDue(a)
	return ok && !due.After(b.Now)
}
