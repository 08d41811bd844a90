package cycle

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// How often nodes are examined.
const (
	// LookAgain is how long nodes are not examined again while nothing changes, as in Karpenter. By then budgets,
	// prices or schedules may have changed.
	LookAgain = 5 * time.Minute
	// goOn is the pause between two parts of a search: new pods are answered first.
	goOn = 20 * time.Millisecond
	// launchPause is how long no search is made after a launch: the cluster is about to change. If launches never stop,
	// a part is searched every maxPause.
	launchPause = time.Second
	maxPause    = 10 * time.Second
	// rests is the length of the pause after a part, as a multiple of the time that it took: saving money may wait for a
	// busy processor.
	rests = 2
	// MinRipening is the shortest pause after a complete search that waits only for pods to get older.
	MinRipening = time.Minute
)

// search is the search for nodes that are not worth their price. It examines the nodes in parts, in turn, and pauses
// while nothing has changed since it was last complete.
type search struct {
	last     *model.Snapshot // that was examined; nil = examine again
	at       time.Time       // when
	kept     []model.Kept    // why nodes were kept then
	after    model.Cursor    // where it stopped; the zero value if it was complete
	again    time.Time       // when pods that were too young to be moved are old enough; zero if there are none
	launched time.Time       // when nodes were last launched for pods
	searched time.Time       // when a part was last searched, or the first could have been
	rest     time.Time       // until when no search is made, in proportion to the duration of the last part
	held     bool            // a part was due at the last call and was not searched
}

// noWhatIfs limits the engine to decisions that need no search.
const noWhatIfs = -1

// policy returns the policy for the next part, and whether to search one.
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
	return now.Before(later(c.launched.Add(launchPause), c.rest)) && now.Before(c.searched.Add(maxPause))
}

// looked records the result of a part and when it was known; done reports whether all of it was carried out.
func (c *search) looked(s *model.Snapshot, p *model.Plan, known time.Time, done bool) {
	c.last, c.at, c.kept = s, s.Now, merged(c.kept, p.Kept)
	c.held = c.pausing(s.Now)
	if !c.held {
		c.after, c.searched, c.again = p.After, s.Now, ripening(c.again, p.RecheckAt, s.Now)
		c.rest = known.Add(min(rests*known.Sub(s.Now), maxPause))
	}
	if !done || c.held {
		c.last = nil
	}
}

// merged returns why nodes are kept: the new reasons, and the previous ones of nodes that this part did not reach.
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

// due returns when the next part should be searched even if nothing changes; zero if that is later than any resync.
func (c *search) due(now time.Time) time.Time {
	if resume := c.launched.Add(launchPause); now.Before(resume) {
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

// ripening returns when to search again for pods that were too young: at the earlier of the two times, but not
// separately for each node. The time of an earlier part counts until it has passed.
func ripening(before, next, now time.Time) time.Time {
	if before.After(now) {
		next = Sooner(before, next)
	}
	if next.IsZero() {
		return next
	}
	return later(next, now.Add(MinRipening))
}

// changed reports whether two snapshots differ. They share what has not changed, so that this costs nothing.
func changed(a, b *model.Snapshot) bool {
	return !same(a.Nodes, b.Nodes) || !same(a.Pending, b.Pending) || !same(a.Expected, b.Expected) ||
		!same(a.Shapes, b.Shapes) || !same(a.Daemons, b.Daemons) ||
		!same(a.Namespaces, b.Namespaces) || !samePools(a.Pools, b.Pools) || a.Unsettled != b.Unsettled
}

func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// samePools compares what pools allow and offer. Their usage follows from the nodes, and what their reservations are
// from their types.
func samePools(a, b []model.Pool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || x.Disruption != y.Disruption || x.NotReady != y.NotReady || x.Replicas != y.Replicas ||
			x.Limits != y.Limits || x.MinNodes != y.MinNodes ||
			x.Weight != y.Weight || !same(x.Types, y.Types) || !slices.Equal(x.Taints, y.Taints) ||
			!slices.EqualFunc(x.Requirements, y.Requirements, sameRequirement) ||
			!slices.EqualFunc(x.Reservations, y.Reservations, sameFree) {
			return false
		}
	}
	return true
}

func sameRequirement(a, b model.Requirement) bool {
	return a.Key == b.Key && a.Complement == b.Complement && a.Present == b.Present && a.MinValues == b.MinValues &&
		slices.Equal(a.Values, b.Values) && sameBound(a.Gte, b.Gte) && sameBound(a.Lte, b.Lte)
}

func sameBound(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

func sameFree(a, b model.Reservation) bool { return a.ID == b.ID && a.Free == b.Free }

// fellDue reports whether a node has become a candidate since.
func fellDue(a, b *model.Snapshot) bool {
	due, ok := NextDue(a)
	return ok && !due.After(b.Now)
}

// NextDue returns when the next node becomes a candidate, and whether there is one to wait for: when its
// consolidateAfter has passed and no pod is nominated to it, or when there is another reason to replace it.
func NextDue(s *model.Snapshot) (time.Time, bool) {
	pools := map[string]*model.DisruptionPolicy{}
	for i := range s.Pools {
		pools[s.Pools[i].Name] = &s.Pools[i].Disruption
	}
	var next time.Time
	for i := range s.Nodes {
		n := &s.Nodes[i]
		policy := pools[n.Pool]
		if policy == nil || n.Claim == "" || n.Deleting || n.State != model.Initialized {
			continue
		}
		since := n.Initialized
		if n.LastPodEvent.After(since) {
			since = n.LastPodEvent
		}
		due := later(since.Add(max(policy.ConsolidateAfter, 0)), n.NominatedUntil)
		if policy.Never {
			due = n.NominatedUntil // drift waits for that too
		}
		for _, due := range append(causes(policy, n), due) {
			if due.After(s.Now) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	return next, !next.IsZero()
}

// causes returns the times from which the node is to be replaced for other reasons, including past times.
func causes(policy *model.DisruptionPolicy, n *model.Node) []time.Time {
	var out []time.Time
	if policy.SoftExpireAfter > 0 {
		out = append(out, n.Created.Add(policy.SoftExpireAfter))
	}
	if policy.ReplaceCrowded {
		for _, l := range n.MissingDaemons {
			out = append(out, l.Since.Add(model.CrowdedOutAfter))
		}
	}
	return out
}
