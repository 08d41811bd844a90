package simulate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/printable"
	"github.com/nodeless/nodeless/lab/scenario"
)

// simulated is a decision of `nodeless simulate`, as -o json prints it. Amounts in the plans are in the order of
// ResourceNames, prices in millionths of a dollar an hour.
type simulated struct {
	Solver         string      `json:"solver"`
	Launched       int         `json:"launchedNodes"`
	Placed         int         `json:"podsPlaced"`
	Unplaced       int         `json:"podsNotPlaced"`
	DollarsPerHour float64     `json:"dollarsPerHour"`
	AtLeast        float64     `json:"provenMinimumDollarsPerHour"`
	Why            []why       `json:"notPlaced,omitempty"`
	Violations     []string    `json:"brokenPromises,omitempty"`
	ResourceNames  []string    `json:"resourceNames"`
	Provision      model.Plan  `json:"provision"`
	Disrupt        *model.Plan `json:"disrupt,omitempty"`

	cost model.Price
}

// why is the reason that several pods share.
type why struct {
	Pods   int      `json:"pods"`
	Such   string   `json:"suchAs"`
	Reason string   `json:"reason"`
	Pools  []string `json:"pools,omitempty"` // how many types each rule left
}

// sum fills in what follows from the plans.
func (r *simulated) sum() {
	r.Launched, r.Placed, r.Unplaced = len(r.Provision.Launches), len(r.Provision.Placements), len(r.Provision.Unplaced)
	for _, l := range r.Provision.Launches {
		r.cost += l.Chosen.Price
		r.Placed += len(l.Pods)
	}
	r.DollarsPerHour, r.AtLeast = r.cost.Dollars(), r.Provision.LowerBound.Dollars()
	index := map[string]int{}
	for _, u := range r.Provision.Unplaced {
		text := reason.Pod(u.Reason)
		i, known := index[text]
		if !known {
			i = len(r.Why)
			index[text] = i
			w := why{Such: u.Pod.Namespace + "/" + u.Pod.Name, Reason: text}
			for _, v := range u.Reason.Pools {
				if len(v.Funnel) > 0 {
					w.Pools = append(w.Pools, v.Pool+": "+reason.Funnel(v))
				}
			}
			r.Why = append(r.Why, w)
		}
		r.Why[i].Pods++
	}
}

// text returns the plan in the form that scenarios expect.
func (r *simulated) text(s *model.Snapshot) string {
	out := scenario.FormatPlan(s, r.Provision)
	if r.Disrupt != nil {
		out += "then\n" + scenario.FormatPlan(s, *r.Disrupt)
	}
	return out
}

func (r *simulated) writeSentences(w io.Writer, s *model.Snapshot) error {
	var b strings.Builder
	var launches, goes, moves, stays []string
	for _, l := range r.Provision.Launches {
		launches = append(launches, reason.Launch(s, l))
	}
	if r.Disrupt != nil {
		for _, x := range r.Disrupt.Removals {
			goes = append(goes, reason.Removal(s, x))
		}
		for _, x := range r.Disrupt.Commands {
			moves = append(moves, reason.Command(s, x))
		}
		for _, x := range r.Disrupt.Kept {
			stays = append(stays, reason.Kept(x))
		}
	}
	output.Section(&b, "Place", r.places())
	output.Section(&b, "Launch", counted(launches))
	var refused []string
	for _, y := range r.Why {
		text := fmt.Sprintf("%s (such as %s): %s", reason.Count(y.Pods, "pod"), y.Such, y.Reason)
		for _, funnel := range y.Pools {
			text += "\n      " + funnel
		}
		refused = append(refused, text)
	}
	output.Section(&b, "Unschedulable", refused)
	output.Section(&b, "Remove", goes)
	output.Section(&b, "Replace", moves)
	output.Section(&b, "Keep", stays)
	if r.Provision.Partial {
		b.WriteString("The search reached its step limit; more may be possible (policy max-steps).\n")
	}
	if r.Disrupt != nil && r.Disrupt.Partial {
		setting, at := "after", r.Disrupt.After.Underutilized
		if at == "" {
			setting, at = "after-drifted", r.Disrupt.After.Drifted
		}
		fmt.Fprintf(&b, "Not every node whose pods would have to move was evaluated; policy %s=%s continues.\n", setting, at)
	}
	if len(r.Provision.Launches) > 0 {
		fmt.Fprintf(&b, "Costs %s for %s%s.\n", reason.Dollars(r.cost), reason.Count(r.Launched, "node"), r.above())
	}
	if b.Len() == 0 {
		b.WriteString("Nothing to do.\n")
	}
	_, err := io.WriteString(w, printable.Lines(b.String()))
	return err
}

// places returns how many pods are placed on which node that exists or is launching.
func (r *simulated) places() []string {
	n := map[string]int{}
	for _, p := range r.Provision.Placements {
		n[p.Node]++
	}
	var out []string
	for _, node := range slices.Sorted(maps.Keys(n)) {
		out = append(out, reason.Count(n[node], "pod")+" on "+node)
	}
	return out
}

// above returns how far the price is above the proven minimum, "" if there is none.
func (r *simulated) above() string {
	bound := r.Provision.LowerBound
	if bound <= 0 {
		return ""
	}
	percent := 100 * float64(r.cost-bound) / float64(bound)
	return fmt.Sprintf(", at most %.1f %% above the proven minimum of %s", max(percent, 0), reason.Dollars(bound))
}

// counted lists equal lines once, with their number, in the order of their first occurrence.
func counted(lines []string) []string {
	n := map[string]int{}
	var order []string
	for _, l := range lines {
		if n[l] == 0 {
			order = append(order, l)
		}
		n[l]++
	}
	for i, l := range order {
		order[i] = fmt.Sprintf("%d × %s", n[l], l)
	}
	return order
}

// writeSimulated prints one decision as an object, several as a list.
func writeSimulated(w io.Writer, format string, results []simulated) error {
	var v any = results
	if len(results) == 1 {
		v = results[0]
	}
	return output.Data(w, format, v)
}
