package web

import (
	"net/http"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view"
)

// periodItem is a budget or a disruption window of a NodePool, with the times at which its schedule puts it in force,
// as pairs of seconds since 1970.
type periodItem struct {
	Pool    string     `json:"pool"`
	Nodes   string     `json:"nodes,omitempty"` // that a budget allows; "" for a disruption window
	Reasons []string   `json:"reasons"`
	Spans   [][2]int64 `json:"spans"`
}

// periods answers with what was in force between two moments, in milliseconds since 1970 and at most a week apart, by
// the current schedules of the NodePools: former schedules are not kept.
type periods struct {
	model *view.Model
	clock clock.Clock
}

func (p periods) answer(r *http.Request) (any, error) {
	within, err := span(r)
	if err != nil {
		return nil, err
	}
	if earliest := within.To.Add(-view.Calendar); within.From.Before(earliest) {
		within.From = earliest
	}
	out := []periodItem{}
	rows := p.model.Pools(p.clock.Now(), view.Query{}).Rows
	for i := range rows {
		if rows[i].Disruption == nil {
			continue
		}
		d, name := rows[i].Disruption(within.From), view.Escape(rows[i].Name)
		for _, b := range d.Budgets {
			if in := clip(b.Spans, within); len(in) > 0 {
				out = append(out, periodItem{name, view.Escape(b.Nodes), b.Reasons, in})
			}
		}
		if d.Window == nil {
			continue
		}
		if in := clip(d.Window.Spans, within); len(in) > 0 {
			out = append(out, periodItem{name, "", d.Window.Reasons, in})
		}
	}
	return out, nil
}

// span returns the time between the parameters from and to, in milliseconds since 1970.
func span(r *http.Request) (view.Span, error) {
	from, err := number(r, "from")
	if err != nil {
		return view.Span{}, err
	}
	to, err := number(r, "to")
	return view.Span{From: time.UnixMilli(from), To: time.UnixMilli(to)}, err
}

// clip returns the parts of spans that lie within another span, in seconds since 1970.
func clip(of []view.Span, within view.Span) (out [][2]int64) {
	for _, s := range of {
		from, to := max(s.From.Unix(), within.From.Unix()), min(s.To.Unix(), within.To.Unix())
		if from < to {
			out = append(out, [2]int64{from, to})
		}
	}
	return out
}
