package capture

import (
	"context"

	"github.com/nodeless/nodeless/explain/record/store"
)

// Decisions are what the controller keeps of what it decided. The error is keep.ErrNotKept where there is no such
// thing, and keep.ErrNotAllow for who may not read it. A dump holds none.
func (c *Cluster) Decisions(ctx context.Context) (*store.Reading, error) {
	if c.rest == nil {
		return nil, store.ErrNotKept
	}
	r, err := store.NewReader(c.rest)
	if err != nil {
		return nil, err
	}
	return r.Read(ctx)
}
