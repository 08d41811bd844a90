package program

import (
	"context"

	"github.com/spf13/cobra"
)

// NowFlag adds --now.
func NowFlag(c *cobra.Command, now *bool) {
	c.Flags().BoolVar(now, "now", false, "end pods in microVMs at once, without their grace")
}

// WithGrace returns a context for ending pods in microVMs: they get all the time they need or, with now, none.
func WithGrace(ctx context.Context, now bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if now {
		cancel()
	}
	return ctx, cancel
}
