package model_test

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// The rates at which pods end add up; pods that stay on their node or whose age is unknown do not count.
func TestLives(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pods := func(ages ...time.Duration) (out []model.BoundPod) {
		for _, age := range ages {
			out = append(out, model.BoundPod{Pod: model.Pod{Created: now.Add(-age)}})
		}
		return out
	}
	daemon := model.BoundPod{Pod: model.Pod{Created: now.Add(-time.Second)}, Daemon: true}
	for name, c := range map[string]struct {
		pods       []model.BoundPod
		each, next time.Duration
	}{
		"none":               {nil, model.Unknown, model.Unknown},
		"one":                {pods(time.Hour), time.Hour, time.Hour},
		"equal ages":         {pods(time.Hour, time.Hour, time.Hour), time.Hour, 20 * time.Minute},
		"one is young":       {pods(time.Hour, time.Hour, time.Minute), 3 * time.Hour / 62, time.Hour / 62},
		"just created":       {pods(time.Hour, 0), 0, 0},
		"in the future":      {pods(-time.Hour), 0, 0},
		"of unknown age":     {[]model.BoundPod{{}, {}}, model.Unknown, model.Unknown},
		"one of unknown age": {append(pods(time.Hour), model.BoundPod{}), 2 * time.Hour, time.Hour},
		"beside a daemon":    {append(pods(time.Hour), daemon), time.Hour, time.Hour},
	} {
		each, next := model.Lives(now, c.pods)
		if each.Round(time.Millisecond) != c.each.Round(time.Millisecond) ||
			next.Round(time.Millisecond) != c.next.Round(time.Millisecond) {
			t.Errorf("%s: each %s, next %s, want %s and %s", name, each, next, c.each, c.next)
		}
	}
}
