package metrics

import "github.com/prometheus/client_golang/prometheus"

type recordCounters struct{ written, dropped, damaged, writes *prometheus.CounterVec }

func newRecordCounters(m maker) recordCounters {
	return recordCounters{
		written: m.counter("nodeless_decision_entries_written_total",
			"Decisions and outcomes of decisions that were written into the cluster."),
		dropped: m.counter("nodeless_decision_entries_dropped_total",
			"Turns, decisions and outcomes that came faster than they could be written and are not kept."),
		damaged: m.counter("nodeless_decision_pieces_damaged_total",
			"Pieces of the log of decisions that could not be read and were passed over."),
		writes: m.counter("nodeless_decision_writes_total",
			"Calls that write the log of decisions: done, moved (somebody else had written) or failed.", "result"),
	}
}

// RecordsWritten counts entries of the log of decisions that were written.
func (c *Counters) RecordsWritten(entries int) {
	if c != nil {
		c.records.written.WithLabelValues().Add(float64(entries))
	}
}

// RecordsDropped counts turns and entries that are not kept.
func (c *Counters) RecordsDropped(n int) {
	if c != nil {
		c.records.dropped.WithLabelValues().Add(float64(n))
	}
}

// RecordDamaged counts a piece that cannot be read.
func (c *Counters) RecordDamaged() {
	if c != nil {
		c.records.damaged.WithLabelValues().Inc()
	}
}

// RecordWrite counts a call that writes the log: done, moved or failed.
func (c *Counters) RecordWrite(result string) {
	if c != nil {
		c.records.writes.WithLabelValues(result).Inc()
	}
}
