package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Messages to the page are JSON objects with these fields:
//
// e epoch, s number of the frame, t its time in milliseconds since 1970, k kinds from index f on, m records, g IDs of
// removed nodes, o totals, h names of the resources
//
// A state has all nodes and an empty g, a frame those that changed. A state in the stream also has n, the present time,
// as its t is that of the last change.

// state returns everything as it was at a moment, or as it is now for the zero time. id is the frame's ID.
func (h *history) state(t time.Time, resources []string) (id string, text []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, nodes := *h.last(), h.now
	if !t.IsZero() {
		f, nodes = h.at(t)
	}
	f.set, f.gone, f.kinds = make([]*record, 0, len(nodes)), nil, 0
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		f.set = append(f.set, nodes[id])
	}
	names, err := json.Marshal(resources)
	if err != nil {
		return "", nil, fmt.Errorf("write resources: %w", err)
	}
	text, err = h.encode(nil, &f, len(h.kinds))
	if err != nil {
		return "", nil, err
	}
	text = append(append(append(text[:len(text)-1], `,"h":`...), names...), '}')
	return h.id(&f), text, nil
}

// since returns messages for the frames after an ID, at most most of them, and their IDs. known is false, and there
// are no frames, if the ID is unknown or no longer kept. wait is closed when there is a new frame.
func (h *history) since(id string, most int) (frames [][]byte, ids []string, known bool, wait <-chan struct{},
	err error,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list, ok := h.after(id)
	if !ok {
		return nil, nil, false, h.grown, nil
	}
	for i := range list[:min(most, len(list))] {
		kinds := len(h.kinds)
		if i+1 < len(list) {
			kinds = list[i+1].kinds
		}
		text, err := h.encode(nil, &list[i], kinds)
		if err != nil {
			return nil, nil, false, nil, err
		}
		frames, ids = append(frames, text), append(ids, h.id(&list[i]))
	}
	return frames, ids, true, h.grown, nil
}

// encode appends a frame with the kinds that are new in it: those from f.kinds up to index kinds.
func (h *history) encode(b []byte, f *frame, kinds int) ([]byte, error) {
	b = append(b, `{"e":"`...)
	b = append(b, h.epoch...)
	b = append(b, `","s":`...)
	b = strconv.AppendInt(b, f.seq, 10)
	b = append(b, `,"t":`...)
	b = strconv.AppendInt(b, f.at.UnixMilli(), 10)
	if kinds > f.kinds {
		b = append(b, `,"f":`...)
		b = strconv.AppendInt(b, int64(f.kinds), 10)
		b = append(b, `,"k":[`...)
		b = joined(b, h.kinds[f.kinds:kinds])
		b = append(b, ']')
	}
	b = append(b, `,"m":[`...)
	for i, r := range f.set {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, r.json...)
	}
	b = append(b, `],"g":[`...)
	for i, id := range f.gone {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, id, 10)
	}
	b = append(b, `],"o":`...)
	sums, err := json.Marshal(f.totals)
	if err != nil {
		return nil, fmt.Errorf("write totals: %w", err)
	}
	return append(append(b, sums...), '}'), nil
}

func joined(b []byte, parts [][]byte) []byte {
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, p...)
	}
	return b
}
