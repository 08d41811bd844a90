package metrics

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// maker makes metrics and registers them.
type maker struct{ r prometheus.Registerer }

func made[C prometheus.Collector](m maker, c C) C {
	if m.r != nil {
		m.r.MustRegister(c)
	}
	return c
}

func (m maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return made(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return made(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (m maker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return made(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

func (m maker) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	const accuracy = 0.01
	objectives := map[float64]float64{0: accuracy, 0.5: accuracy, 0.9: accuracy, 0.99: accuracy, 1: accuracy}
	return made(m, prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: objectives},
		labels))
}

// durations returns the buckets that dashboards expect, in seconds, from milliseconds to ten minutes.
func durations() []float64 {
	out := []float64{0.005, 0.01, 0.025, 0.05}
	add := func(from, step float64, n int) {
		for i := range n {
			out = append(out, from+float64(i)*step)
		}
	}
	out = append(out, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
	add(1, 0.25, 5)
	add(2.5, 0.5, 6)
	add(6, 1, 5)
	add(15, 5, 4)
	return append(out, 40, 50, 60, 120, 150, 300, 450, 600)
}

// lifetimes returns the buckets for the ages of nodes: quarters of an hour, hours, and days up to a month.
func lifetimes() []float64 {
	var out []float64
	for unit, counts := range map[time.Duration][]int{
		15 * time.Minute: {1, 2, 3}, time.Hour: {1, 2, 4, 6, 8, 10, 12, 16, 20},
		24 * time.Hour: {1, 2, 3, 5, 10, 15, 20, 25, 30},
	} {
		for _, n := range counts {
			out = append(out, (time.Duration(n) * unit).Seconds())
		}
	}
	slices.Sort(out)
	return out
}

// Snake returns a name such as NodeRepair in snake case, node_repair.
func Snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// SetBuild records the version and build of this program.
func SetBuild(r prometheus.Registerer, version string) {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	m := maker{r}
	m.gauge("karpenter_build_info", "1, with the version of this program.", "version", "goversion", "goarch", "commit").
		WithLabelValues(version, runtime.Version(), runtime.GOARCH, commit).Set(1)
}
