package logs

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

const positionsDir = "positions"

// Route routes the logs of one pod: a sender for each output.
type Route struct {
	router *Router
	pod    Pod

	mu        sync.Mutex
	senders   []*sender
	ended     bool
	positions []position // of the current outputs, or of the last ones

	saving sync.Mutex
}

// position is how far an output has got.
type position struct {
	Output string           // its ID
	Sent   map[string]int64 // time of the last accepted line, by container
}

func (t *Route) file() string {
	return filepath.Join(t.router.o.Dir, positionsDir, t.pod.ID+".json")
}

// recall reads the positions that an earlier process has left.
func (t *Route) recall() {
	b, err := os.ReadFile(t.file())
	if err == nil && json.Unmarshal(b, &t.positions) != nil {
		t.router.o.Log.Warn("cannot read how far the logs of a pod were routed; routing them from the beginning",
			"file", t.file())
	}
}

// save writes the positions.
func (t *Route) save() {
	t.saving.Lock()
	defer t.saving.Unlock()
	t.mu.Lock()
	t.note()
	positions, gone := t.positions, t.ended
	t.mu.Unlock()
	if gone {
		return
	}
	if err := atomicfile.WriteJSON(t.file(), positions); err != nil {
		t.router.o.Log.Warn("cannot save how far the logs of a pod were routed; a restart would send some lines twice",
			"error", err)
	}
}

// note updates the positions from the senders. t.mu is held.
func (t *Route) note() {
	if len(t.senders) == 0 {
		return // keep the last positions until there are outputs again
	}
	t.positions = t.positions[:0:0]
	for _, l := range t.senders {
		t.positions = append(t.positions, position{l.out.ID, l.position()})
	}
}

// configure replaces the senders with those of a pipeline.
func (t *Route) configure(p *pipeline.Pipeline) {
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p == nil || t.ended {
		return
	}
	from := inherit(t.positions, p.Outputs)
	for i, out := range p.Outputs {
		l := newSender(t, p, out, from[i])
		t.senders = append(t.senders, l)
		t.router.running.Go(l.run)
	}
}

// inherit returns where outputs start: an unchanged output where it was, a changed one where the earlier output at
// the same index was, and a new one at the beginning of the stored logs.
func inherit(had []position, outputs []*pipeline.Output) []map[string]int64 {
	out := make([]map[string]int64, len(outputs))
	used := make([]bool, len(had))
	for i, o := range outputs {
		for j := range had {
			if out[i] == nil && !used[j] && had[j].Output == o.ID {
				out[i], used[j] = had[j].Sent, true
			}
		}
	}
	for i := range outputs {
		if out[i] == nil && i < len(had) && !used[i] {
			out[i], used[i] = had[i].Sent, true
		}
	}
	return out
}

// current returns the senders.
func (t *Route) current() []*sender {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.senders
}

// stop ends the senders and saves their positions.
func (t *Route) stop() {
	senders := t.current()
	for _, l := range senders {
		l.cancel()
	}
	for _, l := range senders {
		<-l.done
	}
	if len(senders) > 0 {
		t.save()
	}
	t.mu.Lock()
	t.senders = nil
	t.mu.Unlock()
}

// Pause sends what is left, until ctx is done. A later Route of the same pod continues.
func (t *Route) Pause(ctx context.Context) { t.finish(ctx, false) }

// End sends what is left, until ctx is done, and forgets the pod.
func (t *Route) End(ctx context.Context) {
	t.finish(ctx, true)
	t.saving.Lock()
	defer t.saving.Unlock()
	_ = os.Remove(t.file())
}

// finish sends what is left, until ctx is done, and ends the senders. If it is final, what remains unsent is lost.
func (t *Route) finish(ctx context.Context, final bool) {
	senders := t.current()
	for _, l := range senders {
		l.drain(final)
	}
	for _, l := range senders {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	t.stop()
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	if t.router.routes[t.pod.ID] == t {
		delete(t.router.routes, t.pod.ID)
	}
}
