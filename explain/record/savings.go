package record

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefaultHorizon is how long a machine that was taken away counts at most: nobody would have left it for ever.
const DefaultHorizon = 24 * time.Hour

// Counterfactual says against what savings are counted. Savings counts by it, word for word.
const Counterfactual = "Compared with the same cluster in which no node is removed for being empty or underutilized: each would have run on at its price " +
	"until its expireAfter, for at most %s. The cost of its replacements is deducted from the moment of the decision. " +
	"Every node launched later in the same pool for pending pods is deducted too, as if the removed nodes had had room for them. " +
	"Nodes of unknown price are left out. Choosing cheap types for pending pods is not counted, nor are drift, expiry and interruptions."

// Ledger is what was saved.
type Ledger struct {
	APIVersion     string    `json:"apiVersion"`
	Kind           string    `json:"kind"`
	Since          time.Time `json:"since"` // of the oldest decision that is kept
	Until          time.Time `json:"until"`
	Horizon        string    `json:"horizon"`
	Counterfactual string    `json:"counterfactual"`
	Dollars        float64   `json:"dollars"`        // the sum of all Savings
	DollarsPerHour float64   `json:"dollarsPerHour"` // by which it grows now
	Unpriced       int       `json:"unpriced,omitempty"`
	Savings        []Saving  `json:"savings"`
}

// Saving is what one decision saved. Dollars is Gone − Replacements − Launched, of which each is a sum of money over
// its time.
type Saving struct {
	Decision       string    `json:"decision"`
	Time           time.Time `json:"time"`
	Method         string    `json:"method"`
	Pools          []string  `json:"nodePools"`
	What           string    `json:"what"`
	Gone           float64   `json:"goneDollars"`         // what the machines that went would have cost
	Replacements   float64   `json:"replacementsDollars"` // what the machines that came for them cost
	Launched       float64   `json:"launchedDollars"`     // what machines cost that were launched later in their pools
	Dollars        float64   `json:"dollars"`
	DollarsPerHour float64   `json:"dollarsPerHour"` // now
	Until          time.Time `json:"until"`          // when it stops to count, or stopped
	State          string    `json:"state"`          // one of the words below
}

// States of a Saving.
const (
	Waiting  = "Waiting" // no machine is gone yet
	Counting = "Counting"
	Over     = "Over"     // nothing is added any more
	TakenOff = "TakenOff" // later launches make up for all of it
	Reversed = "Reversed" // the machines stayed: only what the replacements cost meanwhile is counted
)

// credit is a machine that went: so much an hour from a moment to another, less what was launched since.
type credit struct {
	of         *Saving
	pool       string
	price      float64
	since, end time.Time
	taken      []launched // whose prices are at most price together
	left       float64    // of price
}

// accrue adds up what the machine would have cost until now.
func (c *credit) accrue(now time.Time) {
	to := earlier(c.end, now)
	c.of.Gone += c.price * hours(c.since, to)
	for _, l := range c.taken {
		c.of.Launched += l.price * hours(l.at, to)
	}
	if now.Before(c.end) {
		c.of.DollarsPerHour += c.left
	}
}

// hours between two times, 0 if the second is the earlier one.
func hours(from, to time.Time) float64 { return max(to.Sub(from).Hours(), 0) }

// Savings adds up what was saved until now.
func Savings(records []Record, now time.Time, horizon time.Duration) Ledger {
	l := Ledger{
		APIVersion: "nodeless.sh/v1alpha1", Kind: "SavingsLedger", Until: now.UTC(), Since: now.UTC(),
		Horizon:        horizon.String(),
		Counterfactual: fmt.Sprintf(Counterfactual, horizon), Savings: []Saving{},
	}
	if len(records) > 0 {
		l.Since = records[0].Time
	}
	var savings []*Saving
	var credits []*credit
	var launches []launched
	for i := range records {
		r := &records[i]
		launches = append(launches, launchesOf(r)...)
		if r.Method != "Empty" && r.Method != "Underutilized" || r.Kind != Remove && r.Kind != Replace {
			continue
		}
		s, more, priced := opened(r, now, horizon)
		if !priced {
			l.Unpriced++
			continue
		}
		savings, credits = append(savings, s), append(credits, more...)
	}
	take(credits, launches)
	left := map[*Saving]float64{}
	for _, c := range credits {
		c.accrue(now)
		left[c.of] += c.left
	}
	for _, s := range savings {
		s.Dollars = s.Gone - s.Replacements - s.Launched
		if s.State == Counting && left[s] <= 0 {
			s.State = TakenOff
		}
		l.Dollars += s.Dollars
		l.DollarsPerHour += s.DollarsPerHour
		l.Savings = append(l.Savings, *s)
	}
	return l
}

// opened is a decision by which machines go, with a credit for each of them that is gone. Without all prices there is
// none.
func opened(r *Record, now time.Time, horizon time.Duration) (*Saving, []*credit, bool) {
	s := &Saving{Decision: r.ID, Time: r.Time, Method: r.Method, Until: r.Time.Add(horizon), State: Waiting}
	var credits []*credit
	var from, to []string
	for _, m := range r.Goes {
		if m.DollarsPerHour <= 0 {
			return nil, nil, false
		}
		from = append(from, m.Type)
		if !slices.Contains(s.Pools, m.Pool) {
			s.Pools = append(s.Pools, m.Pool)
		}
		if m.Expires != nil && m.Expires.Before(s.Until) {
			s.Until = *m.Expires
		}
	}
	undone := r.Outcome(Undone, "")
	if undone != nil {
		s.State = Reversed
		s.Until = earlier(s.Until, undone.Time)
	}
	for _, m := range r.Goes {
		if gone := r.Outcome(Gone, m.Claim); gone != nil && undone == nil {
			s.State = Counting
			credits = append(credits,
				&credit{of: s, pool: m.Pool, price: m.DollarsPerHour, left: m.DollarsPerHour, since: gone.Time, end: s.Until})
		}
	}
	for _, b := range r.Comes {
		price := priceOf(r, b)
		if price <= 0 {
			return nil, nil, false
		}
		to = append(to, b.Chosen.Type)
		s.Replacements += price * hours(r.Time, earlier(s.Until, now))
		if now.Before(s.Until) {
			s.DollarsPerHour -= price
		}
	}
	if s.State == Counting && !now.Before(s.Until) {
		s.State = Over
	}
	s.What = strings.Join(counts(from), ", ")
	if len(to) > 0 {
		s.What += " → " + strings.Join(counts(to), ", ")
	}
	return s, credits, true
}
