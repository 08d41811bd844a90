package web

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/view"
)

// bounds limit a history. Older frames are merged into its base.
type bounds struct {
	frames int // maximum number
	bytes  int // size of their records, as text
	kinds  int // number at which the history starts over
}

var usual = bounds{frames: 20000, bytes: 32 << 20, kinds: 20000}

// history holds the nodes as they are now and how they came to be so: a base and the frames since. It is safe for
// concurrent use; frames and records do not change.
type history struct {
	resources int
	bounds    bounds

	mu     sync.Mutex
	epoch  string // new at every reset; frames are numbered within it
	kinds  [][]byte
	index  map[string]int // index into kinds, by text
	base   map[uint64]*record
	from   frame // the last frame merged into base
	now    map[uint64]*record
	frames []frame
	bytes  int
	grown  chan struct{} // closed when there is a new frame
}

// frame is one step: what changed at a moment.
type frame struct {
	seq    int64
	at     time.Time
	set    []*record
	gone   []uint64
	kinds  int // number of kinds before it
	totals totals
	bytes  int
}

func newHistory(resources int, b bounds) *history {
	h := &history{resources: resources, bounds: b, grown: make(chan struct{})}
	h.reset()
	return h
}

// reset forgets everything; followers then receive all nodes again.
func (h *history) reset() {
	h.epoch, h.kinds, h.index = strings.ToLower(rand.Text()[:12]), nil, map[string]int{}
	h.base, h.now, h.frames, h.bytes = map[uint64]*record{}, map[uint64]*record{}, nil, 0
	h.from = frame{}
}

// full reports whether the history has reached its limit of kinds; then it must be reset and all nodes added again.
func (h *history) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.kinds) >= h.bounds.kinds
}

// mostAhead is how far in the future the newest frame may be, as after the clock was set back.
const mostAhead = time.Minute

// ahead reports whether the newest frame is too far in the future: new frames could not be told apart by their time.
func (h *history) ahead(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last().at.Sub(now) > mostAhead
}

// add appends a frame with the changes to nodes, if there are any. Its time is never before that of the last one.
func (h *history) add(c *view.Changes, at time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = at.Truncate(time.Millisecond) // requests give a frame's time in milliseconds
	if last := h.last().at; at.Before(last) {
		at = last
	}
	f := frame{
		seq: h.last().seq + 1, at: at, gone: c.Gone, kinds: len(h.kinds),
		totals: newTotals(&c.Totals, h.resources), bytes: 64 + 8*len(c.Gone),
	}
	for i := range c.Set {
		k, err := h.kindOf(&c.Set[i])
		if err != nil {
			return err
		}
		r, err := newRecord(&c.Set[i], k, h.resources)
		if err != nil {
			return err
		}
		if was := h.now[r.id]; was != nil && string(was.json) == string(r.json) {
			continue
		}
		h.now[r.id] = r
		f.set = append(f.set, r)
		f.bytes += len(r.json) + 16
	}
	for _, id := range c.Gone {
		delete(h.now, id)
	}
	if len(f.set)+len(f.gone) == 0 && len(h.frames) > 0 && reflect.DeepEqual(f.totals, h.last().totals) {
		return nil // as when a kubelet says that all is as it was
	}
	h.frames = append(h.frames, f)
	h.bytes += f.bytes
	for len(h.frames) > 1 && (len(h.frames) > h.bounds.frames || h.bytes > h.bounds.bytes) {
		h.from = h.frames[0]
		h.from.apply(h.base)
		h.from.set, h.from.gone = nil, nil
		h.bytes -= h.from.bytes
		h.frames = h.frames[1:]
	}
	close(h.grown)
	h.grown = make(chan struct{})
	return nil
}

func (h *history) kindOf(b *view.Box) (int, error) {
	text, err := json.Marshal(newKind(b))
	if err != nil {
		return 0, fmt.Errorf("write the labels of %s: %w", b.Name, err)
	}
	i, known := h.index[string(text)]
	if !known {
		i = len(h.kinds)
		h.index[string(text)] = i
		h.kinds = append(h.kinds, text)
	}
	return i, nil
}

// last returns the newest frame, or the base's if there is none.
func (h *history) last() *frame {
	if len(h.frames) == 0 {
		return &h.from
	}
	return &h.frames[len(h.frames)-1]
}

func (f *frame) apply(nodes map[uint64]*record) {
	for _, r := range f.set {
		nodes[r.id] = r
	}
	for _, id := range f.gone {
		delete(nodes, id)
	}
}

// id returns a frame's ID, which is unique across resets and processes.
func (h *history) id(f *frame) string { return h.epoch + "." + strconv.FormatInt(f.seq, 10) }

// after returns the frames after the one with an ID, none if that is the newest; false if that frame is not known or
// no longer kept.
func (h *history) after(id string) ([]frame, bool) {
	epoch, number, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	if epoch != h.epoch || err != nil || seq < h.from.seq || seq > h.last().seq {
		return nil, false
	}
	return h.frames[seq-h.from.seq:], true
}

// at returns the last frame at or before a moment, or the oldest known one, and the nodes as of that frame.
func (h *history) at(t time.Time) (frame, map[uint64]*record) {
	n, _ := slices.BinarySearchFunc(h.frames, t, func(f frame, t time.Time) int {
		if f.at.After(t) {
			return 1
		}
		return -1
	})
	if n == 0 && h.from.at.IsZero() && len(h.frames) > 0 {
		n = 1 // there is nothing before the first frame
	}
	if n == len(h.frames) {
		return *h.last(), h.now
	}
	nodes, f := maps.Clone(h.base), h.from
	for i := range n {
		h.frames[i].apply(nodes)
		f = h.frames[i]
	}
	return f, nodes
}
