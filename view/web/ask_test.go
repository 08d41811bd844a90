package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// solver counts how often it is asked about pending pods.
type solver struct {
	Engine
	asked int
	err   error
}

func (e *solver) Waiting(context.Context) (any, error) {
	e.asked++
	return map[string]int{"asked": e.asked}, e.err
}

// Readers who look at the pending pods at about the same time share one answer of the engine; an error is not shared.
func TestReadersShareTheEnginesAnswer(t *testing.T) {
	s, e := open(t, 1, 1), &solver{err: errors.New("the cluster is not read yet")}
	s.o.Engine = func(context.Context) (Engine, error) { return e, nil }
	s.life = t.Context()
	ask := func(want string) {
		t.Helper()
		if _, text := s.get("/api/pending"); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
	ask(`{"error":"the cluster is not read yet"}`)
	e.err = nil
	for range 5 {
		ask(`{"asked":2}`)
	}
	s.clock.Advance(keptFor - time.Millisecond)
	ask(`{"asked":2}`)
	s.clock.Advance(time.Millisecond)
	ask(`{"asked":3}`)
}

// Of ten thousand pending pods, the page lists those that have waited longest, and says how many there are.
func TestTenThousandPodsWait(t *testing.T) {
	s := open(t, 10, 0)
	for i := range 10_000 {
		s.model.SetPod(&view.Pod{
			UID: fmt.Sprint("uid-", i), Namespace: "shop", Name: fmt.Sprintf("batch-%d", i),
			Created: viewtest.Now.Add(-time.Duration(i) * time.Second), Requests: view.Amounts{500, viewtest.Gi},
		})
	}
	var got struct {
		Of, Shown int
		Pods      []pod
	}
	status, text := s.get("/api/waiting")
	if err := json.Unmarshal([]byte(text), &got); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	if got.Of != 10_000 || got.Shown != 10_000 || len(got.Pods) != mostWaiting {
		t.Fatalf("%d pods of %d, %d match", len(got.Pods), got.Of, got.Shown)
	}
	if first, last := got.Pods[0].Name, got.Pods[mostWaiting-1].Name; first != "batch-9999" || last != "batch-9500" {
		t.Errorf("the list goes from %s to %s", first, last)
	}
}
