package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The phases, in order.
const (
	starting = iota
	settling
	idling
	churning
	growing
	shrinking
)

// table formats the measurements, with a column for each cluster.
func table(t *testing.T, all []*scale) string {
	used := func(_ *scale, f *figures) string {
		d, err := f.cpu()
		if err != nil {
			t.Error(err)
		}
		return seconds(d)
	}
	var out strings.Builder
	line := func(first string, of func(*scale) string) {
		out.WriteString("| " + first)
		for _, s := range all {
			out.WriteString(" | " + of(s))
		}
		out.WriteString(" |\n")
	}
	line("", func(s *scale) string {
		return count(s.phases[starting].nodes) + " nodes, " + count(s.phases[starting].nodes*podsPerNode) + " pods"
	})
	line("---", func(*scale) string { return "---" })
	for _, r := range rows {
		of := r.of
		if of == nil {
			of = used
		}
		line(r.what, func(s *scale) string { return of(s, &s.phases[r.phase]) })
	}
	return out.String()
}

var rows = []struct {
	phase int
	what  string
	of    func(*scale, *figures) string // nil = the controller's CPU time
}{
	{starting, "**start**, until the first decision: CPU", nil},
	{starting, "received from the API server", megabytes},
	{settling, "**the first 5 minutes**: CPU", nil},
	{settling, "memory that is alive then", alive},
	{idling, "**idle**, 15 minutes: CPU", nil},
	{idling, cyclesOf, cycles},
	{idling, trafficOf, traffic},
	{idling, "calls to AWS", amazonCalls},
	{churning, "**churn**, 1,000 pods replaced: CPU", nil},
	{churning, cyclesOf, cycles},
	{churning, trafficOf, traffic},
	{growing, "**scale-out**, 5,000 pods at once: CPU", nil},
	{growing, cyclesOf, cycles},
	{growing, trafficOf, traffic},
	{growing, "nodes launched · calls of CreateFleet", launches},
	{shrinking, "**consolidation**, a tenth of the pods ends, 15 minutes: CPU", nil},
	{shrinking, cyclesOf, cycles},
	{shrinking, trafficOf, traffic},
	{shrinking, "nodes removed · launched as replacements · pods evicted", removals},
}

const (
	cyclesOf  = "cycles · the longest decision for pods · the longest search for savings"
	trafficOf = "watch events · API writes · events recorded"
)

func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// calls counts the calls whose names contain a text.
func calls(counts map[string]int, text string) int {
	n := 0
	for what, k := range counts {
		if strings.Contains(what, text) {
			n += k
		}
	}
	return n
}

// recorded counts writes of Events, writes all others.
func (f *figures) recorded() int { return calls(f.api, "/events") }

func (f *figures) writes() int {
	n := -f.recorded()
	for _, verb := range []string{"post ", "put ", "patch ", "delete "} {
		n += calls(f.api, verb)
	}
	return n
}

func traffic(_ *scale, f *figures) string {
	return count(f.events) + " · " + count(f.writes()) + " · " + count(f.recorded())
}

func launches(_ *scale, f *figures) string {
	return count(f.launched) + " · " + count(calls(f.aws, "CreateFleet"))
}

func removals(_ *scale, f *figures) string {
	return count(f.ended) + " · " + count(f.launched) + " · " + count(calls(f.api, "/eviction"))
}

func cycles(_ *scale, f *figures) string {
	return count(f.cycles) + " · " + seconds(f.plan) + " · " + seconds(f.search)
}

func amazonCalls(_ *scale, f *figures) string { return count(calls(f.aws, "")) }
func megabytes(_ *scale, f *figures) string   { return fmt.Sprintf("%.1f MB", float64(f.bytes)/1e6) }

func alive(s *scale, f *figures) string {
	return fmt.Sprintf("%.0f MB", (float64(f.heap)-float64(s.blank))/1e6)
}
