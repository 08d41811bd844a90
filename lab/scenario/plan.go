package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// FormatPlan formats a plan for people, without identities: equal launches and equal reasons appear once, and pods
// are grouped by the part of their name before the number. An empty plan is "nothing".
func FormatPlan(s *model.Snapshot, p model.Plan) string {
	var b strings.Builder
	b.WriteString(placements(p))
	b.WriteString(launches(p))
	b.WriteString(unplaced(p))
	for _, r := range p.Removals {
		_, why, _ := strings.Cut(reason.Removal(s, r), ": ")
		fmt.Fprintf(&b, "remove %s as %s: %s\n", r.Node, r.Method, why)
	}
	for i := range p.Commands {
		b.WriteString(command(s, &p.Commands[i]))
	}
	for _, k := range p.Kept {
		fmt.Fprintf(&b, "keep %s: %s\n", k.Node, reason.Undone(k.Reason))
	}
	if p.Partial {
		b.WriteString("the search was cut")
		if at := cmp.Or(p.After.Drifted, p.After.Underutilized); at != "" {
			b.WriteString(" after " + at)
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// command formats a command with its launches.
func command(s *model.Snapshot, c *model.Command) string {
	names := make([]string, len(c.Removals))
	for i, r := range c.Removals {
		names[i] = r.Node
	}
	_, why, _ := strings.Cut(reason.Command(s, *c), ": ")
	text := fmt.Sprintf("replace %s as %s: %s\n", strings.Join(names, ", "), c.Method, why)
	for line := range strings.Lines(launches(model.Plan{Launches: c.Launches})) {
		if !strings.HasPrefix(line, "costs ") {
			text += "  " + line
		}
	}
	return text
}

func placements(p model.Plan) string {
	byNode := map[string][]model.PodKey{}
	for _, x := range p.Placements {
		byNode[x.Node] = append(byNode[x.Node], x.Pod)
	}
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(byNode)) {
		fmt.Fprintf(&b, "place %s on %s\n", names(byNode[n]), n)
	}
	return b.String()
}

func launches(p model.Plan) string {
	var texts []string
	var total model.Price
	for _, l := range p.Launches {
		total += l.Chosen.Price
		text := fmt.Sprintf("%s %s in %s at %s from %s for %s\n  types %s\n", l.Chosen.Type, l.Chosen.CapacityType,
			l.Chosen.Zone,
			reason.Dollars(l.Chosen.Price), l.Pool, whom(l.Pods), strings.Join(l.Types, " "))
		if l.RunnerUp.Type != "" {
			text += fmt.Sprintf("  next best %s %s in %s at %s\n", l.RunnerUp.Type, l.RunnerUp.CapacityType, l.RunnerUp.Zone,
				reason.Dollars(l.RunnerUp.Price))
		}
		for _, x := range l.Relaxed {
			text += "  " + reason.Relaxed(x) + "\n"
		}
		texts = append(texts, text+"  requires "+l.Requirements.String()+"\n")
	}
	slices.Sort(texts)
	var b strings.Builder
	for i := 0; i < len(texts); {
		n := 1
		for i+n < len(texts) && texts[i+n] == texts[i] {
			n++
		}
		fmt.Fprintf(&b, "launch %d × %s", n, texts[i])
		i += n
	}
	if len(texts) > 0 {
		counts := ""
		if p.EffectivePrice != total {
			counts = ", counts for " + reason.Dollars(p.EffectivePrice)
		}
		if p.LowerBound > 0 || total == 0 {
			counts += ", at least " + reason.Dollars(p.LowerBound)
		}
		fmt.Fprintf(&b, "costs %s%s\n", reason.Dollars(total), counts)
	}
	return b.String()
}

func unplaced(p model.Plan) string {
	byReason := map[string][]model.PodKey{}
	for _, u := range p.Unplaced {
		text := fmt.Sprintf("%s: %s\n", u.Reason.Rule, reason.Pod(u.Reason))
		for _, v := range u.Reason.Pools {
			if len(v.Funnel) > 0 {
				text += fmt.Sprintf("  %s: %s\n", v.Pool, reason.Funnel(v))
			}
		}
		byReason[text] = append(byReason[text], u.Pod)
	}
	var b strings.Builder
	for _, r := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&b, "no place for %s, %s", names(byReason[r]), r)
	}
	return b.String()
}

// whom formats the names of the pods of a launch.
func whom(pods []model.PodKey) string {
	if len(pods) == 0 {
		return "no pod"
	}
	return names(pods)
}

// names counts pods by the part of the name before the number, such as "3 db, 15 web".
func names(pods []model.PodKey) string {
	count := map[string]int{}
	for _, p := range pods {
		base := p.Name
		if i := strings.LastIndexByte(base, '-'); i > 0 {
			base = base[:i]
		}
		count[base]++
	}
	bases := slices.Sorted(maps.Keys(count))
	for i, base := range bases {
		bases[i] = fmt.Sprintf("%d %s", count[base], base)
	}
	return strings.Join(bases, ", ")
}
