package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/reason"
)

// Line returns the decision and its outcome in one line. Names in it are not escaped.
func (r *Record) Line() string {
	text := r.Why
	if became := r.Result(); became != "" {
		text += " — " + became
	}
	return text
}

// Result describes the outcome of the decision so far, "" if nothing is known yet.
func (r *Record) Result() string {
	var parts []string
	if n := r.count(Ready); n > 0 {
		first, last := r.Outcome(Ready, ""), r.last(Ready)
		switch {
		case len(r.Launched) <= 1:
			parts = append(parts, fmt.Sprintf("ready in %s as %s", seconds(first.Seconds), first.Node)+r.differentOffer(first))
		default:
			parts = append(parts, fmt.Sprintf("%d of %d ready, the last in %s", n, len(r.Launched), seconds(last.Seconds)))
		}
	}
	if o := r.Outcome(Kept, ""); o != nil {
		parts = append(parts, fmt.Sprintf("abandoned after %s: %s", seconds(o.Seconds), o.Text))
	}
	if n := r.count(Terminated); n > 0 {
		last := r.last(Terminated)
		text := "terminated after " + seconds(last.Seconds)
		if len(r.Removed) > 1 {
			text = fmt.Sprintf("%d of %d terminated, the last after %s", n, len(r.Removed), seconds(last.Seconds))
		}
		if last.Text != "" {
			text += ": " + last.Text
		}
		parts = append(parts, text)
	} else if o := r.Outcome(RemovalStarted, ""); o != nil {
		parts = append(parts, fmt.Sprintf("removal started after %s", seconds(o.Seconds)))
	}
	return strings.Join(parts, "; ")
}

// differentOffer says what the cloud launched if that is not what was chosen.
func (r *Record) differentOffer(o *Outcome) string {
	if o.Offer == nil || len(r.Launched) != 1 || o.Offer.Type == "" {
		return ""
	}
	chosen := r.Launched[0].Chosen
	if o.Offer.Type == chosen.Type && o.Offer.Zone == chosen.Zone && o.Offer.CapacityType == chosen.CapacityType {
		return ""
	}
	return fmt.Sprintf("; the cloud launched %s", o.Offer)
}

// String returns the offer in words.
func (o Offer) String() string {
	text := strings.TrimSpace(o.Type + " " + o.CapacityType)
	if o.Zone != "" {
		text += " in " + o.Zone
	}
	if o.DollarsPerHour > 0 {
		text += " at " + reason.PerHour(o.DollarsPerHour)
	}
	return text
}

func (r *Record) count(what OutcomeKind) int {
	n := 0
	for i := range r.Outcomes {
		if r.Outcomes[i].Kind == what {
			n++
		}
	}
	return n
}

func (r *Record) last(what OutcomeKind) *Outcome {
	for i := len(r.Outcomes) - 1; i >= 0; i-- {
		if r.Outcomes[i].Kind == what {
			return &r.Outcomes[i]
		}
	}
	return nil
}

// seconds formats durations as 44s, 3m20s or 5h1m.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Money formats a sum in dollars with the decimals of prices.
func Money(dollars float64) string { return reason.Money(dollars, 4) }
