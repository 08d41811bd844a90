package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// DefaultHorizon is the maximum time for which a removed node counts as saved.
const DefaultHorizon = 24 * time.Hour

// Counterfactual states what savings are compared with. Savings implements it word for word.
const Counterfactual = "Compared with the same cluster in which no node is removed for being empty or " +
	"underutilized: each would have run on at its price " +
	"until its expireAfter, for at most %s. The cost of its replacements is deducted from the moment of the decision. " +
	"Every node launched later in the same pool for pending pods is deducted too, as if the removed nodes had had " +
	"room for them. " +
	"Nodes of unknown price are left out. Choosing cheap types for pending pods is not counted, nor are drift, expiry " +
	"and interruptions."

// Ledger is the sum of savings.
type Ledger struct {
	APIVersion     string    `json:"apiVersion"`
	Kind           string    `json:"kind"`
	Since          time.Time `json:"since"` // of the oldest decision that is kept
	Until          time.Time `json:"until"`
	Horizon        string    `json:"horizon"`
	Counterfactual string    `json:"counterfactual"`
	Dollars        float64   `json:"dollars"`        // the sum of all Savings
	DollarsPerHour float64   `json:"dollarsPerHour"` // its current rate of growth
	Unpriced       int       `json:"unpriced,omitempty"`
	// By is one of Groupings if Sums divides the savings.
	By   string `json:"by,omitempty"`
	Sums []Sum  `json:"sums,omitempty"`
	// Savings has one item for each decision that removed nodes of known price.
	Savings []Saving `json:"savings"`
}

// Saving is what one decision saved. Dollars is RemovedDollars − ReplacementDollars − LaunchedDollars, each a sum
// over time.
type Saving struct {
	Decision           string    `json:"decision"`
	Time               time.Time `json:"time"`
	Method             string    `json:"method"`
	Pools              []string  `json:"nodePools"`
	What               string    `json:"what"`
	RemovedDollars     float64   `json:"goneDollars"`         // what the removed nodes would have cost
	ReplacementDollars float64   `json:"replacementsDollars"` // what their replacements cost
	LaunchedDollars    float64   `json:"launchedDollars"`     // what later launches in their pools cost
	Dollars            float64   `json:"dollars"`
	DollarsPerHour     float64   `json:"dollarsPerHour"` // now
	Until              time.Time `json:"until"`          // when it stops counting, or stopped
	State              string    `json:"state"`          // one of the words below

	removed []RemovedNode // of the decision; with shares, what parts divides
	shares  []Share
}

// States of a Saving.
const (
	Waiting  = "Waiting" // no node has terminated yet
	Counting = "Counting"
	Over     = "Over"     // nothing more is added
	TakenOff = "TakenOff" // later launches cancel all of it
	Reversed = "Reversed" // the nodes stayed: only the cost of the replacements is counted
)

// credit is a removed node: its price over a period, less launches since the decision.
type credit struct {
	of         *Saving
	pool       string
	price      float64
	decided    time.Time     // the removal
	since, end time.Time     // since it terminated
	launches   []laterLaunch // their prices add up to at most price
	left       float64       // of price, after launches
}

// accrue adds up what the node would have cost until now.
func (c *credit) accrue(now time.Time) {
	to := earlier(c.end, now)
	c.of.RemovedDollars += c.price * hours(c.since, to)
	for _, l := range c.launches {
		c.of.LaunchedDollars += l.price * hours(later(l.at, c.since), to)
	}
	if now.Before(c.end) {
		c.of.DollarsPerHour += c.left
	}
}

// hours returns the hours between two times, 0 if the second is earlier.
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
	var launches []laterLaunch
	for i := range records {
		r := &records[i]
		launches = append(launches, laterLaunches(r)...)
		if !r.saves() {
			continue
		}
		s, more, priced := newSaving(r, now, horizon)
		if !priced {
			l.Unpriced++
			continue
		}
		savings, credits = append(savings, s), append(credits, more...)
	}
	deductLaunches(credits, launches)
	left := map[*Saving]float64{}
	for _, c := range credits {
		c.accrue(now)
		left[c.of] += c.left
	}
	for _, s := range savings {
		s.Dollars = s.RemovedDollars - s.ReplacementDollars - s.LaunchedDollars
		if s.State == Counting && left[s] <= 0 {
			s.State = TakenOff
		}
		l.Dollars += s.Dollars
		l.DollarsPerHour += s.DollarsPerHour
		l.Savings = append(l.Savings, *s)
	}
	return l
}

// saves reports whether a decision counts: it removes nodes because they cost more than they are needed for.
func (d *Decision) saves() bool {
	return (d.Method == string(model.Empty) || d.Method == string(model.Underutilized)) &&
		(d.Kind == Remove || d.Kind == Replace)
}

// Day is what was saved on one day in UTC. Today counts until now.
type Day struct {
	Date    string  `json:"date"` // such as 2026-11-22
	Dollars float64 `json:"dollars"`
}

// SavedByDay divides the sum of Savings among its last days, at most most of them, newest first. Every day is
// computed from what is known now, such as which commands were abandoned.
func SavedByDay(records []Record, now time.Time, horizon time.Duration, most int) []Day {
	const length = 24 * time.Hour
	var out []Day
	if len(records) == 0 {
		return out
	}
	end, sum := now, Savings(records, now, horizon).Dollars
	for len(out) < most && end.After(records[0].Time) {
		begin := end.Add(-1).Truncate(length)
		before := Savings(records, begin, horizon).Dollars
		out = append(out, Day{begin.Format(time.DateOnly), sum - before})
		end, sum = begin, before
	}
	return out
}

// newSaving opens a saving for a decision that removes nodes, with a credit for each node that has terminated. It
// returns false if a price is unknown.
func newSaving(r *Record, now time.Time, horizon time.Duration) (*Saving, []*credit, bool) {
	s := &Saving{
		Decision: r.ID, Time: r.Time, Method: r.Method, Until: r.Time.Add(horizon), State: Waiting,
		removed: r.Removed, shares: r.Shares,
	}
	var credits []*credit
	var from, to []string
	for _, m := range r.Removed {
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
	undone := r.Outcome(Kept, "")
	if undone != nil {
		s.State = Reversed
		s.Until = earlier(s.Until, undone.Time)
	}
	for _, m := range r.Removed {
		if gone := r.Outcome(Terminated, m.Claim); gone != nil && undone == nil {
			s.State = Counting
			credits = append(credits, &credit{
				of: s, pool: m.Pool, price: m.DollarsPerHour, left: m.DollarsPerHour,
				decided: r.Time, since: gone.Time, end: s.Until,
			})
		}
	}
	for _, b := range r.Launched {
		price := priceOf(r, b)
		if price <= 0 {
			return nil, nil, false
		}
		to = append(to, b.Chosen.Type)
		s.ReplacementDollars += price * hours(r.Time, earlier(s.Until, now))
		if now.Before(s.Until) {
			s.DollarsPerHour -= price
		}
	}
	if s.State == Counting && !now.Before(s.Until) {
		s.State = Over
	}
	s.What = strings.Join(countedWords(from), ", ")
	if len(to) > 0 {
		s.What += " → " + strings.Join(countedWords(to), ", ")
	}
	return s, credits, true
}
