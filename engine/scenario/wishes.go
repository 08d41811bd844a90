package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// wishes reads what a pool's owner wishes of disruption beyond spec.disruption.
func (p *parser) wishes(items []string, d *model.DisruptionPolicy) (err error) {
	for _, item := range items {
		key, text, _ := cut(item, "=")
		switch key {
		case "window":
			err = window(text, &d.Window)
		case "open":
			d.Window.Open = true
		case "until":
			var in time.Duration
			in, err = time.ParseDuration(text)
			d.Window.Until = p.s.Now.Add(in)
		case "unclear":
			d.Unclear = leaf(text)
		case "saving":
			d.MinSaving, err = price(text)
		case "saving-percent":
			d.MinSavingPercent, err = whole[int](text)
		case "soft-expire":
			d.SoftExpireAfter, err = time.ParseDuration(text)
		case "replace-crowded":
			d.ReplaceCrowded = true
		case "wait-for-jobs":
			d.WaitForJobs = true
		default:
			err = fmt.Errorf("unknown field")
		}
		if err != nil {
			return fmt.Errorf("wish(%s): %w", item, err)
		}
	}
	return nil
}

func window(text string, w *model.Window) error {
	for _, reason := range strings.Split(text, "|") {
		switch reason {
		case "empty":
			w.Empty = true
		case "drifted":
			w.Drifted = true
		case "underused":
			w.Underused = true
		default:
			return fmt.Errorf("want empty, drifted or underused with | between them")
		}
	}
	return nil
}

func (w *writer) wishItems(p *model.DisruptionPolicy) []string {
	d := declare()
	var binds []string
	for _, by := range []struct {
		name string
		yes  bool
	}{{"empty", p.Window.Empty}, {"drifted", p.Window.Drifted}, {"underused", p.Window.Underused}} {
		if by.yes {
			binds = append(binds, by.name)
		}
	}
	if len(binds) > 0 {
		d.word("window="+strings.Join(binds, "|"), true)
	}
	d.word("open", p.Window.Open)
	if !p.Window.Until.IsZero() {
		d.word("until="+p.Window.Until.Sub(w.s.Now).String(), true)
	}
	d.amount("unclear", p.Unclear, "")
	d.amount("saving", dollars(p.MinSaving), "0")
	d.number("saving-percent", int64(p.MinSavingPercent))
	if p.SoftExpireAfter != 0 {
		d.word("soft-expire="+p.SoftExpireAfter.String(), true)
	}
	d.word("replace-crowded", p.ReplaceCrowded)
	d.word("wait-for-jobs", p.WaitForJobs)
	return d.parts
}

// lacks reads the DaemonSets whose pods wait for a node.
func (p *parser) lacks(items []string) ([]model.MissingDaemon, error) {
	var out []model.MissingDaemon
	for _, item := range items {
		name, text, _ := cut(item, "=")
		ago, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("lacks(%s): want namespace/name=how long: %w", item, err)
		}
		out = append(out, model.MissingDaemon{DaemonSet: leaf(name), Since: p.s.Now.Add(-ago)})
	}
	return out, nil
}

func (w *writer) lackItem(l model.MissingDaemon) string {
	return quote(l.DaemonSet) + "=" + w.s.Now.Sub(l.Since).String()
}
