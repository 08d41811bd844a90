package live

import (
	"context"

	"github.com/nodeless/nodeless/internal/record/keep"
)

// Decisions are what the controller keeps of what it decided. The error is keep.ErrNotKept where there is no such thing, and
// keep.ErrNotAllow for who may not read it. A dump holds none.
func (c *Cluster) Decisions(ctx context.Context) (*keep.Reading, error) {
	if c.rest == nil {
		return nil, keep.ErrNotKept
	}
	r, err := keep.NewReader(c.rest)
	if err != nil {
		return nil, err
	}
	return r.Read(ctx)
}
