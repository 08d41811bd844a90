package capture

import (
	"context"

	"github.com/nodeless/nodeless/explain/record/store"
)

// Decisions returns the decisions that the controller recorded. The error is store.ErrNotKept where there are none,
// and store.ErrNotAllowed where they may not be read. A dump has none.
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
