package cycle

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// A controller that runs for months may have logged many failures, and the next one must be found in its log, too. One
// that fails in each cycle must not flood it.
func TestAFailureIsLoggedOnceAnHour(t *testing.T) {
	s, log, failure := newStage(), &bytes.Buffer{}, 0
	x := NewDriver(Options{
		State: s, Applier: player{s}, Clock: s.Virtual, Log: slog.New(slog.NewTextHandler(log, nil)),
		Provision: func(*model.Snapshot, model.Policy) model.Plan { return model.Plan{} },
		Check: func(*model.Snapshot, model.Policy, model.Plan) []check.Violation {
			return []check.Violation{{Promise: "fits", Object: fmt.Sprint("pod ", failure)}}
		},
	})
	logged := func() int {
		x.Provision(t.Context())
		return strings.Count(log.String(), "failed its check")
	}
	for failure = range 30 {
		if got := logged(); got != failure+1 {
			t.Fatalf("%d failures were logged after %d different ones", got, failure+1)
		}
	}
	s.Advance(59 * time.Minute)
	if got := logged(); got != 30 {
		t.Errorf("the same failure was logged again within an hour")
	}
	s.Advance(time.Minute)
	if got := logged(); got != 31 || len(x.logged) != 1 {
		t.Errorf("after an hour, %d were logged, and %d are remembered", got, len(x.logged))
	}
}
