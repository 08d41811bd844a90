//go:build !noplane

package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

// fewSteps is how many steps and pods are listed without -o wide.
const fewSteps = 20

// WritePlan describes what would happen; with wide, it leaves nothing out.
func WritePlan(w io.Writer, o *whatif.Outcome, wide bool) error {
	var b strings.Builder
	output.Section(&b, "Changed", o.Changes)
	var steps, kept, evicted, unplaced, hazards []string
	for _, h := range o.Hazards {
		hazards = append(hazards, h.Why)
	}
	output.Section(&b, "Before you apply it", few(hazards, wide))
	for i := range o.Steps {
		steps = append(steps, stepText(&o.Steps[i], wide))
	}
	for _, k := range o.Kept {
		kept = append(kept, k.Name+": "+k.Why+anyway(k.Before))
	}
	for _, e := range o.Evictions {
		evicted = append(evicted,
			fmt.Sprintf("%-8s %s from %s%s", "+"+about(e.AfterSeconds), e.Pod, e.Node, anyway(e.Anyway)))
	}
	for _, u := range o.Unplaced {
		unplaced = append(unplaced, u.Name+": "+u.Why+anyway(u.Before))
	}
	output.Section(&b, "Then", few(steps, wide))
	if wide {
		output.Section(&b, "Evicted", evicted)
	}
	output.Section(&b, "Drifted, and kept", few(kept, wide))
	output.Section(&b, "Unschedulable", few(unplaced, wide))
	output.Section(&b, "DaemonSet pods that would stay Pending", few(daemonsPending(o.DaemonsPending), wide))
	if !o.Differs() {
		b.WriteString("Nothing would be different.\n")
	}
	fmt.Fprintf(&b, "Nodes  %d now, %d then: %d removed, %d launched, in about %s\n", o.Before.Nodes, o.After.Nodes,
		len(o.Removed), len(o.Added), about(o.Seconds))
	fmt.Fprintf(&b, "Pods   %d evicted, %d unschedulable", len(o.Evictions), len(o.Unplaced))
	if n := len(o.DaemonsPending); n > 0 {
		fmt.Fprintf(&b, ", %d of DaemonSets Pending", n)
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "Costs  %s a month now, %s then%s\n", reason.Money(o.Before.DollarsPerMonth, 2),
		reason.Money(o.After.DollarsPerMonth, 2), change(o.After.DollarsPerMonth-o.Before.DollarsPerMonth))
	if o.Unchanged != o.Before {
		fmt.Fprintf(&b, "       without the change: %d nodes and %s a month\n", o.Unchanged.Nodes,
			reason.Money(o.Unchanged.DollarsPerMonth, 2))
	}
	if !o.Settled {
		b.WriteString("       more happens later: look further with --horizon\n")
	}
	for _, text := range o.Assumed {
		b.WriteString("  (" + text + ")\n")
	}
	_, err := io.WriteString(w, printable.Lines(b.String())) // a dump may contain any names
	return err
}

func stepText(s *whatif.Step, wide bool) string {
	var goes, comes []string
	for _, m := range s.Removed {
		goes = append(goes, machineText(m))
	}
	for _, m := range s.Launched {
		comes = append(comes, fmt.Sprintf("%s %s in %s at %s", m.Type, m.CapacityType, m.Zone,
			reason.PerHour(m.DollarsPerHour)))
	}
	text := fmt.Sprintf("%-8s ", "+"+about(s.AfterSeconds))
	switch s.Action {
	case whatif.Launch:
		text += fmt.Sprintf("launch %s for %s", strings.Join(comes, ", "), reason.Count(s.Pods, "pod"))
	case whatif.Replace:
		text += fmt.Sprintf("replace %s (%s, %s)", strings.Join(goes, ", "), s.Method, reason.Count(s.Pods, "pod"))
		if len(comes) > 0 {
			text += " with " + strings.Join(comes, ", ")
		} else {
			text += "; other nodes have room for its pods"
		}
	case whatif.Remove:
		text += fmt.Sprintf("remove %s (%s)", strings.Join(goes, ", "), s.Method)
	default:
		text += fmt.Sprintf("keep %s after all: %s", strings.Join(goes, ", "), s.Why)
	}
	text += anyway(s.Anyway)
	if wide && s.Budget != "" {
		text += "\n             budget: " + s.Budget
	}
	if wide && s.Why != "" && s.Action != whatif.Keep {
		text += "\n             why: " + s.Why
	}
	return text
}

// daemonsPending lists the pods with their nodes. What is done about them follows the last of those for which it is
// the same.
func daemonsPending(all []whatif.DaemonPending) []string {
	var out []string
	for i, d := range all {
		out = append(out, fmt.Sprintf("%s on %s: %s%s", d.DaemonSet, d.Node, d.Why, anyway(d.Before)))
		if i+1 == len(all) || all[i+1].Then != d.Then {
			out = append(out, "  "+d.Then)
		}
	}
	return out
}

func machineText(m whatif.Node) string {
	return strings.TrimSpace(fmt.Sprintf("%s (%s %s)", m.Name, m.Type, m.CapacityType))
}

func anyway(is bool) string {
	if is {
		return " (also without the change)"
	}
	return ""
}

func few(lines []string, all bool) []string {
	if all || len(lines) <= fewSteps {
		return lines
	}
	return append(lines[:fewSteps:fewSteps], fmt.Sprintf("… and %d more; -o wide lists all", len(lines)-fewSteps))
}

// about formats a duration for people.
func about(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

func change(dollars float64) string {
	switch {
	case dollars > 0.005:
		return ", " + reason.Money(dollars, 2) + " more"
	case dollars < -0.005:
		return ", " + reason.Money(-dollars, 2) + " less"
	}
	return ""
}
