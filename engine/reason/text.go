package reason

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Launch says what is launched, for which pods, and what the runner-up would cost.
func Launch(s *model.Snapshot, l model.Launch) string {
	pods := Count(len(l.Pods), "pod")
	if len(l.Pods) == 0 {
		pods = "the replicas of its pool"
	}
	text := fmt.Sprintf("%s for %s (%s)", Candidate(l.Chosen), pods, l.Requests.Amounts(s.ResourceNames))
	if slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool }) {
		text += ", pool " + l.Pool
	}
	for _, x := range l.Relaxed {
		text += "; " + Relaxed(x)
	}
	if x := avoided(s, &l); x != "" {
		text += "; " + x
	}
	if l.RunnerUp.Type == "" {
		return text + "; no other type fits"
	}
	text += fmt.Sprintf("; next best %s, %s more", runnerUp(l), Dollars(l.RunnerUp.Price-l.Chosen.Price))
	if len(l.Types) > 1 {
		text += fmt.Sprintf("; %s allowed", Count(len(l.Types)-1, "other type"))
	}
	return text
}

// Relaxed says which minValues a launch does not meet.
func Relaxed(x model.Relaxed) string {
	return fmt.Sprintf("minValues of %s is lowered from %d to %d: no more are available", x.Key, x.From, x.To)
}

// runnerUp names the next best offering by what differs from the chosen one.
func runnerUp(l model.Launch) string {
	text := l.RunnerUp.Type
	if c := l.RunnerUp.CapacityType; c != "" && c != l.Chosen.CapacityType {
		text += " " + c
	}
	if z := l.RunnerUp.Zone; z != "" && z != l.Chosen.Zone && l.RunnerUp.Type == l.Chosen.Type {
		text += " in " + z
	}
	return text
}

// Funnel says how many types each rule left, such as "812 types, 640 by Resource, 0 by Limit".
func Funnel(v model.PoolVerdict) string {
	parts := make([]string, len(v.Funnel))
	for i, f := range v.Funnel {
		parts[i] = fmt.Sprintf("%d by %s", f.Left, f.Rule)
		if f.Rule == model.RuleCatalog {
			parts[i] = Count(f.Left, "type")
		}
	}
	return strings.Join(parts, ", ")
}

// Candidate formats an offering with its price, such as "m7g.large spot in us-west-2a at $0.0310/h".
func Candidate(c model.Candidate) string {
	return fmt.Sprintf("%s %s in %s at %s", c.Type, c.CapacityType, c.Zone, Dollars(c.Price))
}

// Dollars formats a price for people, such as "$0.0425/h".
func Dollars(p model.Price) string { return PerHour(p.Dollars()) }

// PerHour formats dollars per hour with four decimals, which tell the cheapest types apart.
func PerHour(dollars float64) string { return Money(dollars, 4) + "/h" }

// Money formats dollars with the given number of decimals and commas between thousands, such as "-$1,234.50". What
// rounds to zero has no sign.
func Money(dollars float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(dollars), 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	if dollars < 0 && strings.Trim(text, "0.") != "" {
		return "-$" + whole + rest
	}
	return "$" + whole + rest
}

// exact formats an exact amount of dollars per hour, as in a Reason, for people.
func exact(dollars string) string {
	d, err := strconv.ParseFloat(dollars, 64)
	if err != nil {
		return "$" + dollars + "/h"
	}
	return PerHour(d)
}

// Some lists at most the given number of names, and how many more there are.
func Some(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func bracket(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// Count formats a number of things, such as "3 pods".
func Count(n int, noun string) string { return plural(fmt.Sprint(n), noun) }

func plural(n, noun string) string {
	if n == "1" {
		return "1 " + noun
	}
	return n + " " + noun + "s"
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
